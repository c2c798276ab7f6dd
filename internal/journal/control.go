package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"greenward/internal/git"
)

// Verbs of the control ref.
const (
	VerbHold     = "hold"
	VerbRelease  = "release"
	VerbFreeze   = "freeze"
	VerbThaw     = "thaw"
	VerbPause    = "pause"
	VerbResume   = "resume"
	VerbStop     = "stop"
	VerbExclude  = "exclude"
	VerbInclude  = "include"
	VerbRollback = "rollback"
	VerbAccept   = "accept" // policy accept
	VerbTell     = "tell"
	VerbAllow    = "allow" // changes nothing: who allowed what, kept for ever
)

// ErrUnknownVerb is returned for an order that greenward does not know.
var ErrUnknownVerb = errors.New("unknown verb")

// maxTries bounds how often a lost race on the control ref is run again.
const maxTries = 100

// Order is one command to a running greenward.
type Order struct {
	Verb   string       // one of the verbs
	Arg    string       // a run, a commit, or nothing
	Reason string       // why, or the message of tell
	By     git.Identity // who, and when
}

// order is the line that a control commit carries.
type order struct {
	Verb   string    `json:"verb"`
	Arg    string    `json:"arg"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	By     string    `json:"by"`
}

// Control appends a signed order to the control ref by compare-and-swap. When
// it returns without an error the order stands.
func Control(ctx context.Context, repo *git.Repo, signer git.Signer, o Order) error {
	for try := 0; ; try++ {
		move, err := Ordered(repo, signer, o)
		if err != nil {
			return err
		}
		err = repo.Transact(ctx, o.subject(), []git.RefUpdate{move})
		if err == nil {
			return nil
		}
		if _, lost := errors.AsType[*git.RaceError](err); !lost || try >= maxTries {
			return fmt.Errorf("write the order %q: %w", o.Verb, err)
		}
	}
}

// Ordered writes a signed order on the control ref's tip and returns the move of
// the ref that makes it stand. The caller makes that move inside its own
// transaction, so that the order and what goes with it are one.
func Ordered(repo *git.Repo, signer git.Signer, o Order) (git.RefUpdate, error) {
	if !slices.Contains(verbs(), o.Verb) {
		return git.RefUpdate{}, fmt.Errorf("write the order %q: %w", o.Verb, ErrUnknownVerb)
	}
	tip, err := repo.Tip(git.Control)
	if err != nil {
		return git.RefUpdate{}, fmt.Errorf("read %s: %w", git.Control, err)
	}
	line := order{o.Verb, o.Arg, o.Reason, o.By.When.UTC(), fmt.Sprintf("%s <%s>", o.By.Name, o.By.Email)}
	return appendTo(repo, tip, git.RefUpdate{Ref: git.Control, Old: tip}, logMessage{o.subject(), []any{line}, o.By, signer})
}

func (o Order) subject() string { return strings.TrimSpace(o.Verb + " " + o.Arg) }

func verbs() []string {
	return []string{
		VerbHold, VerbRelease, VerbFreeze, VerbThaw, VerbPause, VerbResume, VerbStop,
		VerbExclude, VerbInclude, VerbRollback, VerbAccept, VerbTell, VerbAllow,
	}
}

// Controls is what the orders on the control ref add up to.
type Controls struct {
	Tip      git.Hash             // of the control ref that was read; zero: there is none
	Frozen   *string              // why nothing lands; nil: landing is open
	Hold     *string              // why green does not move; nil: it may
	HeldAt   time.Time            // when the hold was ordered
	Released time.Time            // when the last release was ordered; zero: never
	Thawed   time.Time            // when the last thaw was ordered; zero: never
	ThawedOn git.Hash             // the remote's main that whoever ordered it saw; zero: not told
	Stopped  map[string]bool      // runs
	Paused   map[string]bool      // runs
	Resumed  map[string]time.Time // when runs were resumed last
	Excluded map[git.Hash]string  // commits green must leave out, and why
	Accepted map[git.Hash]bool    // policies accepted by a person
	Rollback git.Hash             // the target of the last rollback; kept for the record
	Allowed  []Allowed            // who allowed what, oldest first
	Tells    []Tell               // messages to runs, oldest first
	Ignored  int                  // commits without a trusted signature or a known form
}

// Tell is a message from a person to a run.
type Tell struct {
	Run, Message, By string
	At               time.Time
	Commit           git.Hash // identifies the message
}

// Allowed is the record that somebody allowed something: a change to land, a run
// to begin, another person to approve.
type Allowed struct {
	What, Reason, By string
	At               time.Time
}

// ReadControls adds up the orders that a trusted key signed. A trusted key is
// given as "ssh-ed25519 AAAA…", with or without a name before or after it.
func ReadControls(repo *git.Repo, trusted []string) (Controls, error) {
	c := Controls{
		Stopped: map[string]bool{}, Paused: map[string]bool{}, Resumed: map[string]time.Time{},
		Excluded: map[git.Hash]string{}, Accepted: map[git.Hash]bool{},
	}
	keys := map[string]bool{}
	for _, t := range trusted {
		if k := publicKey(t); k != "" {
			keys[k] = true
		}
	}
	tip, err := repo.Tip(git.Control)
	if err != nil {
		return c, fmt.Errorf("read %s: %w", git.Control, err)
	}
	commits, err := lineage(repo, tip)
	if err != nil {
		return c, err
	}
	c.Tip = tip
	for _, commit := range commits {
		lines := Lines(commit)
		if len(commit.Parents) > 1 && len(lines) == 0 {
			continue // it joins the orders of two hubs
		}
		if len(lines) != 1 || !signedBy(commit, keys) {
			c.Ignored++
			continue
		}
		var o order
		if err := json.Unmarshal(lines[0], &o); err != nil || !slices.Contains(verbs(), o.Verb) {
			c.Ignored++ // written by a newer greenward: unknown orders must not stop the known ones
			continue
		}
		c.apply(o, commit.Hash)
	}
	return c, nil
}

func signedBy(c git.Commit, keys map[string]bool) bool {
	if c.Signature == "" {
		return false
	}
	key, err := git.VerifySSH(c.Signature, "git", c.SignedPayload())
	return err == nil && keys[publicKey(key)]
}

// publicKey picks type and base64 out of a line that may carry names around them.
func publicKey(line string) string {
	fields := strings.Fields(line)
	for i, f := range fields {
		if strings.HasPrefix(f, "ssh-") && i+1 < len(fields) {
			return f + " " + fields[i+1]
		}
	}
	return ""
}

func (c *Controls) apply(o order, commit git.Hash) {
	why := o.Reason
	if why == "" {
		why = "no reason given"
	}
	switch o.Verb {
	case VerbHold:
		c.Hold, c.HeldAt = &why, o.At
	case VerbRelease:
		c.Hold, c.Released = nil, o.At
	case VerbFreeze:
		c.Frozen = &why
	case VerbThaw:
		on, err := git.ParseHash(o.Arg)
		if c.Frozen, c.Thawed, c.ThawedOn = nil, o.At, on; err != nil {
			c.ThawedOn = "" // by a hub without a remote
		}
	case VerbPause:
		c.Paused[o.Arg] = true
	case VerbResume:
		delete(c.Paused, o.Arg)
		delete(c.Stopped, o.Arg)
		c.Resumed[o.Arg] = o.At
	case VerbStop:
		c.Stopped[o.Arg] = true
	case VerbTell:
		c.Tells = append(c.Tells, Tell{Run: o.Arg, Message: o.Reason, By: o.By, At: o.At, Commit: commit})
	case VerbAllow:
		c.Allowed = append(c.Allowed, Allowed{What: o.Arg, Reason: o.Reason, By: o.By, At: o.At})
	default:
		c.applyCommit(o, why)
	}
}

// applyCommit applies the orders whose argument is a commit.
func (c *Controls) applyCommit(o order, why string) {
	hash, err := git.ParseHash(o.Arg)
	if err != nil {
		c.Ignored++ // the command line writes full ids only
		return
	}
	switch o.Verb {
	case VerbExclude:
		c.Excluded[hash] = why
	case VerbInclude:
		delete(c.Excluded, hash)
	case VerbAccept:
		c.Accepted[hash] = true
	case VerbRollback:
		c.Rollback = hash
	}
}
