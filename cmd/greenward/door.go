package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/internal/web/door"
)

// doorPath is where serve has the hub's git endpoint.
const doorPath = "/hub.git/"

// noDoor tells who comes to the git endpoint of a server that lets nobody in what
// it lacks; git shows it.
func noDoor(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "this server lets no workers in: start it with GREENWARD_WORKER_TOKEN=TOKEN in its environment, and the workers with "+git.HubToken+"=NAME:TOKEN", http.StatusNotFound)
}

// door is the hub's git endpoint: for workers of other hosts, and for operators.
// Nil: no token is set, so nobody could come in.
func (c *crew) door(taker *git.Taker) http.Handler {
	worker, operator := c.app.host.Get("GREENWARD_WORKER_TOKEN"), c.app.host.Get("GREENWARD_OPERATOR_TOKEN")
	if worker == "" && operator == "" {
		return nil
	}
	return &door.Door{
		Repo: c.hub.Repo, May: c.may, Claims: taker,
		Who: func(r *http.Request) (door.Guest, bool) {
			name, token, _ := r.BasicAuth()
			name = strings.ToLower(name) // claims have no capitals: see work
			switch {
			case sameToken(token, operator):
				return door.Guest{Name: name, Operator: true}, true
			case sameToken(token, worker) && checkGuest(name):
				return door.Guest{Name: name}, true
			}
			return door.Guest{}, false
		},
		Moved: func() { c.asked.Ring(); c.moved.Ring() },
	}
}

func sameToken(given, want string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return want != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// checkGuest holds that a worker's host has a name that its claims can begin with.
func checkGuest(name string) bool { return agents.CheckID(name) == nil && !strings.Contains(name, "/") }

// Refusals of the door.
var (
	errNotYours = errors.New("a worker may only ask for changes (refs/heads/queue/*), hold claims of its own, and save work under refs/greenward/rescue/")
	errHands    = errors.New("only greenward itself writes this ref")
)

// may decides which refs a guest moves. An operator moves what people may: never
// the logs, the ledger or green. A worker adds to the queue and to what is rescued,
// and moves claims that its own host holds, or that this hub has seen expire.
func (c *crew) may(g door.Guest, u git.RefUpdate) error {
	ref := string(u.Ref)
	switch {
	case g.Operator:
		if strings.HasPrefix(ref, "refs/greenward/log/") || u.Ref == git.Notes || u.Ref == c.place.green || strings.HasPrefix(ref, "refs/tags/"+c.place.green.Short()+"/") {
			return errHands
		}
		return nil
	case strings.HasPrefix(ref, git.QueuePrefix) && !u.New.IsZero():
		return nil
	case strings.HasPrefix(ref, git.RescuePrefix) && u.Old.IsZero() && !u.New.IsZero():
		return nil
	case strings.HasPrefix(ref, git.ClaimPrefix):
		return c.mayClaim(g, u)
	}
	return errNotYours
}

func (c *crew) mayClaim(g door.Guest, u git.RefUpdate) error {
	task, ok := strings.CutSuffix(strings.TrimPrefix(string(u.Ref), git.ClaimPrefix), "/_")
	if !ok || agents.CheckID(task) != nil {
		return errNotYours
	}
	if u.Old.IsZero() {
		return nil
	}
	held, err := c.claims.Read(task)
	if errors.Is(err, git.ErrNotFound) {
		return nil // it moved meanwhile: git's own compare-and-swap says so
	}
	if err != nil {
		return err
	}
	if strings.HasPrefix(held.Holder, g.Name+"-") || !u.New.IsZero() && c.claims.Expired(held) {
		return nil
	}
	return fmt.Errorf("%s is claimed by %q, which lives: %w", task, held.Holder, errNotYours)
}
