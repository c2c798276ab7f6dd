package queue

import (
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// order writes an order of the hub's own hand.
func (w *world) order(o journal.Order) {
	w.Helper()
	key, err := w.hub.Key()
	if err != nil {
		w.Fatal(err)
	}
	o.By = Committer(w.lander.Now())
	if err := journal.Control(w.Context(), w.hub.Repo, key, o); err != nil {
		w.Fatal(err)
	}
}

// rewritten is a hub whose main lost the landing of one, beside a change that waits.
func rewritten(t *testing.T, onto func(w *world, base string) string) (w *world, before, one string) {
	t.Helper()
	w = newWorld(t, nil)
	base := w.git("rev-parse", "main")
	one = w.branch("one", base, "one", map[string]string{"x": "1\n"})
	w.wantLanded(w.land(), "one landed")
	before = w.git("rev-parse", "main")
	w.branch("two", base, "two", map[string]string{"y": "1\n"})
	w.git("update-ref", "refs/heads/main", onto(w, base))
	return w, before, one
}

// held wants the queue held because of main's history, and nothing decided or logged.
func (w *world) held(names ...string) {
	w.Helper()
	main, log := w.git("rev-parse", "main"), w.git("rev-parse", string(git.QueueLog))
	landing, err := w.lander.Once(w.Context())
	if err != nil || len(landing.Entries) > 0 || landing.Held == nil || !strings.HasPrefix(*landing.Held, HeldHistory) {
		w.Fatalf("not held: %+v, %v", landing, err)
	}
	list, err := w.lander.List(w.Context())
	if err != nil || list.Held == nil || *list.Held != *landing.Held || len(list.Entries) != 1 {
		w.Errorf("the list says %+v, %v", list, err)
	}
	for _, name := range append(names, "queue thaw", "update-ref") {
		if !strings.Contains(*landing.Held, name) {
			w.Errorf("%q is not in %q", name, *landing.Held)
		}
	}
	if w.git("rev-parse", "main") != main || w.git("rev-parse", string(git.QueueLog)) != log {
		w.Error("something moved")
	}
}

// A main that a person rewrote in the hub by force is not taken for what landed: nothing
// moves until it is put back, or a person says that landing goes on.
func TestMainRewrittenByForceHoldsTheQueue(t *testing.T) {
	t.Parallel()
	for name, onto := range map[string]func(w *world, base string) string{
		"set back": func(_ *world, base string) string { return base },
		"rewritten": func(w *world, base string) string {
			return string(w.change(base, "amended", map[string]string{"z": "1\n"}))
		},
		"unrelated": func(w *world, _ string) string {
			return w.git("commit-tree", "-m", "another root", w.git("rev-parse", "main^{tree}"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, before, one := rewritten(t, onto)
			now := w.git("rev-parse", "main")
			w.held("one@"+one[:12], before, now[:12])
			w.order(journal.Order{Verb: journal.VerbThaw, Arg: before}) // of a main that was whole: about something else
			w.held("one@" + one[:12])

			w.git("update-ref", "refs/heads/main", before) // undone
			w.wantLanded(w.land(), "two landed")
		})
	}
}

func TestMainRewrittenByForceIsTakenUpAfterAThaw(t *testing.T) {
	t.Parallel()
	w, before, one := rewritten(t, func(w *world, base string) string {
		return string(w.change(base, "amended", map[string]string{"z": "1\n"}))
	})
	w.held()
	w.order(journal.Order{Verb: journal.VerbThaw, Arg: w.git("rev-parse", "main")})
	w.wantLanded(w.land(), "two landed")
	log, err := journal.LoadQueue(w.hub.Repo)
	if err != nil {
		t.Fatal(err)
	}
	if d, _ := log.Find("one@" + one[:12]); d.State != journal.Withdrawn {
		t.Errorf("the log says of one: %s", d.State)
	}
	if w.show("z") != "1" || !w.isAncestor(w.git("for-each-ref", "--format=%(objectname)", "refs/greenward/rescue/main/"), before) {
		t.Error("what main was is not kept, or what it is was lost")
	}
	w.git("update-ref", "refs/heads/queue/one", one) // it may be asked for again
	w.wantLanded(w.land(), "one landed")
	report, err := Audit(t.Context(), w.hub, "", "")
	if err != nil || len(report.Mismatches) > 0 {
		t.Errorf("audit: %+v, %v", report, err)
	}
	w.git("update-ref", "refs/heads/main", "main~1") // the thaw was about the first time alone
	landing, err := w.lander.Once(t.Context())
	if err != nil || landing.Held == nil {
		t.Errorf("set back again: %+v, %v", landing, err)
	}
}

// Forward is forward, also where a person merged main into a branch and pushed that.
func TestMainThatWasMergedIntoABranchIsNotRewritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	w.branch("one", base, "one", map[string]string{"x": "1\n"})
	w.wantLanded(w.land(), "one landed")
	side := string(w.change(base, "side", map[string]string{"z": "1\n"}))
	tree := w.git("merge-tree", "--write-tree", side, "main")
	w.git("update-ref", "refs/heads/main", w.git("commit-tree", "-p", side, "-p", "main", "-m", "foxtrot", tree))
	w.branch("two", base, "two", map[string]string{"y": "1\n"})
	w.wantLanded(w.land(), "two landed")
}
