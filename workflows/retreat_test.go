package workflows_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
	"greenward/queue"
	"greenward/queue/retreat"

	"github.com/google/go-cmp/cmp"
)

// promoted puts green where a cycle would, and says so in its log.
func (s *site) promoted(rev string) {
	s.Helper()
	green := git.Hash(strings.TrimSpace(gittest.Git(s, s.dir, "rev-parse", rev)))
	log, err := journal.Append(s.hub.Repo, git.GreenLog, "promote", []any{journal.Promotion{State: journal.Promoted, Green: &green, Snapshot: &green}}, queue.Committer(gittest.Start()))
	if err != nil {
		s.Fatal(err)
	}
	if err := s.hub.Transact(s.Context(), "promote", []git.RefUpdate{log, {Ref: "refs/heads/green", New: green}}); err != nil {
		s.Fatal(err)
	}
}

// old puts a change into the hub's queue that was begun on the remote's main, and
// gives its head.
func (s *site) old(name string, files map[string]string) string {
	s.Helper()
	gittest.Git(s, s.dir, "update-ref", "refs/heads/queue/"+name, s.git("rev-parse", "main"))
	return gittest.Commit(s, s.dir, "queue/"+name, name, files)
}

// shared lands one change of its own and one that both have in either hub.
func shared(a, b *site) {
	a.Helper()
	a.land("of-a", map[string]string{"of-a": "a\n"})
	b.land("of-b", map[string]string{"of-b": "b\n"})
	gittest.Git(a, a.dir, "fetch", "-q", b.dir, b.old("both", map[string]string{"both": "1\n"})+":refs/heads/queue/both")
	a.process()
	b.process()
}

// Two hubs of one remote, whose views differ, hold the same entry: whoever pushes
// second drops its copy, and lands the rest on what the first one pushed.
func TestTwoHubsLandAChangeOnce(t *testing.T) {
	t.Parallel()
	follow(t, func(r *remote) {
		a, b := r.site(), r.site()
		a.land("of-a", map[string]string{"of-a": "a\n"})
		b.land("of-b", map[string]string{"of-b": "b\n"})
		both := b.old("both", map[string]string{"both": "1\n"})
		named := b.old("name", map[string]string{"name": "1\n"}) // the same work under two names
		b.submit("patch-b", map[string]string{"patch": "1\n"})
		gittest.Git(r, a.dir, "fetch", "-q", b.dir, both+":refs/heads/queue/both", named+":refs/heads/queue/alias")
		a.submit("patch-a", map[string]string{"patch": "1\n"})
		for _, s := range []*site{a, b} {
			s.process()
		}
		a.once()
		b.once()
		if !b.exchange.Again() || b.exchange.Again() {
			r.Error("nothing waits again in the second hub")
		}
		got := map[string]string{}
		for _, d := range b.process().Entries {
			got[strings.Split(d.Entry, "@")[0]] = d.State + " " + orEmpty(d.Reason)
		}
		want := map[string]string{"of-b": "landed ", "name": "ejected empty", "patch-b": "ejected empty"}
		if diff := cmp.Diff(want, got); diff != "" {
			r.Errorf("decided in the second hub (-want +got):\n%s", diff)
		}
		b.once()
		b.inStep("of-a", "of-b", "both", "name", "patch-a")
		a.once()
		a.process()
		a.once()
		a.inStep("of-a", "of-b", "both", "name", "patch-a")
		b.once()
		for _, s := range []*site{a, b} {
			s.sound()
		}
	})
}

// A retreat that is cut short after any of its moves ends like a whole one.
func TestRetreatCutShort(t *testing.T) {
	t.Parallel()
	for cut := 1; cut <= 4; cut++ {
		t.Run(strconv.Itoa(cut), func(t *testing.T) {
			t.Parallel()
			r := &remote{TB: t, dir: gittest.Bare(t)}
			r.url = r.dir
			gittest.Commit(t, r.dir, "main", "begin", map[string]string{"a": "1\n2\n3\n"})
			a, b := r.site(), r.site()
			shared(a, b)
			a.once()
			if err := b.hub.Fetch(t.Context(), "refs/heads/main", "refs/heads/green"); err != nil {
				t.Fatal(err)
			}
			ours, theirs := git.Hash(gittest.Git(t, b.dir, "rev-parse", "main")), git.Hash(r.git("rev-parse", "main"))
			line, err := retreat.Read(t.Context(), retreat.Input{Hub: b.hub, Main: "refs/heads/main", Ours: ours, Theirs: theirs, By: queue.Committer(time.Unix(1_800_000_000, 0)), Name: "test"})
			if err != nil || len(line.Copies()) != 1 {
				t.Fatal(line, err)
			}
			way, err := line.Again(t.Context())
			if err != nil || way.Tip != theirs {
				t.Fatal(way, err)
			}
			moves := slices.Concat(way.Moves[:1], []git.RefUpdate{{Ref: "refs/heads/main", New: theirs, Old: ours}}, way.Moves[1:])
			if len(moves) != 4 {
				t.Fatalf("%d moves", len(moves))
			}
			if err := b.hub.Transact(t.Context(), "torn", moves[:cut]); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				b.process()
				b.once()
			}
			b.inStep("of-a", "of-b", "both")
			if left := gittest.Git(t, b.dir, "for-each-ref", "refs/heads/queue"); left != "" {
				t.Errorf("left in the queue: %s", left)
			}
			a.once()
			a.sound()
			b.sound()
		})
	}
}

// What green rests on stays: then copies alone are taken back, by commits.
func TestCopiesBelowGreenAreReverted(t *testing.T) {
	t.Parallel()
	follow(t, func(r *remote) {
		a, b := r.site(), r.site()
		shared(a, b)
		b.promoted("main")
		a.once()
		b.once()
		b.process()
		b.once()
		b.inStep("of-a", "of-b", "Revert both")
		if got := b.process(); len(got.Entries) != 0 {
			r.Errorf("decided once more: %+v", got.Entries)
		}
		if got := r.git("ls-tree", "--name-only", "main"); got != "a\nb\nboth\nof-a\nof-b" {
			r.Errorf("main holds %q", got)
		}
		r.git("merge-base", "--is-ancestor", "green", "main")
		b.sound()
	})
}

// A server that wants no merges gets none: what it has not seen lands on its main
// again, after the first refusal without asking.
func TestServerThatWantsLinearHistory(t *testing.T) {
	t.Parallel()
	follow(t, func(r *remote) {
		r.hook(`while read old new ref; do
	test $ref = refs/heads/main && test -n "$(git rev-list --merges $old..$new)" && echo "main must not contain merge commits" >&2 && exit 1
done
exit 0
`)
		s := r.site()
		for _, n := range []string{"1", "2"} {
			s.land("one-"+n, map[string]string{"one-" + n: "1\n"})
			s.land("two-"+n, map[string]string{"two-" + n: "1\n"})
			gittest.Commit(r, r.dir, "main", "direct-"+n, map[string]string{"direct-" + n: "d\n"})
			s.once()
			if !s.exchange.Again() {
				r.Error("nothing waits again")
			}
			if held := s.exchange.Held(); held != nil {
				r.Errorf("held: %s", *held)
			}
			s.process()
			s.once()
			s.inStep("one-"+n, "two-"+n, "direct-"+n)
		}
		if merges := r.git("rev-list", "--merges", "main"); merges != "" {
			r.Errorf("merges on the remote's main: %s", merges)
		}
		s.sound()
		// A refusal for another reason is one.
		r.hook("echo closed >&2; exit 1\n")
		s.land("three", map[string]string{"three": "3\n"})
		if err := s.exchange.Once(r.Context()); err == nil || s.exchange.Held() == nil {
			r.Errorf("a closed server: %v", err)
		}
		r.hook("")
		s.once()
		s.inStep("three")
	})
}
