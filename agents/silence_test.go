package agents

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"greenward/internal/git"
)

// A command that prints nothing and changes nothing is stopped, and its hand-off says
// why; what it did before is kept.
func TestASilentCommandIsStopped(t *testing.T) {
	for name, one := range map[string]struct {
		does    string
		outcome Outcome
	}{
		"from the beginning": {"exec sleep 3333", Failed},
		"deaf to TERM":       {"trap '' TERM; echo begun; sleep 3333; sleep 3333", Failed},
		"after its work":     {"echo x >x.txt; exec sleep 3333", Partial},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			mind := &CommandMind{Argv: []string{"sh", "-c", one.does}, Silence: 200 * time.Millisecond}
			ending := w.do(w.worker(mind), w.addTask(Task{ID: "run/a"}))
			if ending.Outcome != one.outcome {
				t.Errorf("%+v", ending)
			}
			if notes := strings.Join(w.handoff(ending.Landed).Notes, "; "); !strings.Contains(notes, "sh ended: it printed nothing and changed no file for 200ms, and was stopped") {
				t.Errorf("notes %q", notes)
			}
			if one.outcome == Partial && w.show("main", "x.txt") != "x" {
				t.Error("its work is lost")
			}
		})
	}
}

// Who prints, or changes files, is at work, however long that takes; so is all where
// there is no bound.
func TestSignsOfWork(t *testing.T) {
	const most = time.Minute
	for name, one := range map[string]struct {
		most          time.Duration
		prints, edits bool
		stopped       bool
	}{
		"it prints": {most: most, prints: true}, "it edits": {most: most, edits: true}, "neither": {most: most, stopped: true}, "no bound": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancelCause(t.Context())
				looks := 0
				e := hear(ctx, one.most, func(context.Context) ([2]git.Hash, error) {
					looks++
					if one.edits && looks%2 == 0 { // a look that comes in the middle fails
						return [2]git.Hash{}, errors.New("the file went away")
					}
					if one.edits {
						return [2]git.Hash{git.Hash(strings.Repeat("a", looks))}, nil
					}
					return [2]git.Hash{}, nil
				}, [2]git.Hash{}, stop)
				for range 10 {
					<-time.NewTimer(most - time.Second).C
					if one.prints {
						if n, err := e.Write([]byte("word")); n != 4 || err != nil {
							t.Error(n, err)
						}
					}
					synctest.Wait()
				}
				if got := errors.Is(context.Cause(ctx), errNoSign); got != one.stopped {
					t.Errorf("stopped: %v, want %v, after %d looks", got, one.stopped, looks)
				}
				stop(nil)
				e.Wait()
			})
		})
	}
}
