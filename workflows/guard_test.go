package workflows

import (
	"crypto/rand"
	"strings"
	"testing"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// A log, a ledger or a claim that somebody moved by force is noticed, also when it
// happened while nothing ran, and stands again where greenward left it.
func TestForcedRefsAreNoticedAndRestored(t *testing.T) {
	t.Parallel()
	dir := gittest.Bare(t)
	gittest.Commit(t, dir, "main", "begin", map[string]string{"a": "a\n"})
	gitOut := func(args ...string) string { t.Helper(); return gittest.Git(t, dir, args...) }
	hub, err := git.OpenHub(t.Context(), git.HubInput{Dir: dir, Host: gittest.Host(t)})
	if err != nil {
		t.Fatal(err)
	}
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	gitOut("hash-object", "-w", "-t", "tree", "/dev/null")
	commit := func(message string, parents ...string) string {
		args := []string{"commit-tree", "-m", message}
		for _, p := range parents {
			args = append(args, "-p", p)
		}
		return gitOut(append(args, string(git.EmptyTree))...)
	}
	claims := &agents.Claims{Repo: hub.Repo, Self: self, Now: gittest.Clock(), Rand: rand.Reader}
	guard := func() *Guard { return &Guard{Hub: hub, Claims: claims} }
	look := func(g *Guard, want ...string) {
		t.Helper()
		found, err := g.Once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, one := range found {
			if one.Why == "" || !one.Restored {
				t.Errorf("%+v", one)
			}
			got = append(got, string(one.Ref))
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("noticed %v, want %v", got, want)
		}
	}
	first := commit("one")
	second := commit("two", first)
	gitOut("update-ref", string(git.QueueLog), first)
	gitOut("update-ref", string(git.Notes), first)
	gitOut("update-ref", git.RunLogPrefix+"run", second)
	claim, err := claims.Acquire(t.Context(), "run/a", "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	g := guard()
	look(g)
	gitOut("update-ref", string(git.QueueLog), second) // grown, as it should
	if claim, err = claims.Renew(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	taken, err := claims.TakeOver(t.Context(), claim, "worker-2")
	if err != nil {
		t.Fatal(err)
	}
	earlier := taken
	if taken, err = claims.Renew(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	look(g)
	ref := "refs/greenward/claims/run/a/_"
	for name, one := range map[string]struct{ ref, to, want string }{
		"rewound log":    {string(git.QueueLog), first, second},
		"forged log":     {string(git.QueueLog), commit("mine"), second},
		"deleted log":    {string(git.QueueLog), "", second},
		"deleted ledger": {string(git.Notes), "", first},
		"forged ledger":  {string(git.Notes), commit("mine"), first},
		"rewound health": {git.RunLogPrefix + "run", first, second},
		"deleted health": {git.RunLogPrefix + "run", "", second},
		"old claim":      {ref, string(earlier.Commit), string(taken.Commit)},
		"no claim":       {ref, first, string(taken.Commit)},
		"stolen claim":   {ref, commit("claim\n\nTask: run/a\nClaim: 0123456789ab\nGeneration: 2\nBeat: 3\nHolder: mallory"), string(taken.Commit)},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: they share the hub
			if one.to == "" {
				gitOut("update-ref", "-d", one.ref)
			} else {
				gitOut("update-ref", one.ref, one.to)
			}
			alerts := 0
			g := guard() // a new process: nothing but what was noted beside the hub
			g.OnAlert = func(a Tampered) {
				if alerts++; string(a.Ref) != one.ref || a.Why == "" {
					t.Errorf("alerted of %+v", a)
				}
			}
			look(g, one.ref)
			if got := gitOut("rev-parse", one.ref); got != one.want || alerts != 1 {
				t.Errorf("the ref stands at %s after %d alerts, want %s", got, alerts, one.want)
			}
			look(guard()) // and nothing is left to be noticed
		})
	}
	if err := claims.Release(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	look(guard()) // an ended claim is no tampering
}
