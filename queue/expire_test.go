package queue

import (
	"testing"
	"time"

	"greenward/internal/git"
)

// The head of an ejected change is kept 30 days, and not a day less.
func TestEjectedHeadsAreLetGoAfterThirtyDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	w.branch("one", base, "one", map[string]string{"a.txt": "1\n"})
	w.branch("two", base, "two", map[string]string{"a.txt": "2\n"})
	got := w.land()
	w.wantLanded(got, "one landed", "two ejected conflict [a.txt]")
	unknown := git.Ref(git.EjectedPrefix + "somebody@123456789012") // not ours to judge
	w.git("update-ref", string(unknown), base)
	ejected := git.Ref(git.EjectedPrefix + got[1].Entry)
	for _, c := range []struct {
		after time.Duration
		gone  int
	}{{29 * 24 * time.Hour, 0}, {keptFor + time.Hour, 1}, {keptFor + time.Hour, 0}} {
		n, err := Expire(t.Context(), w.hub, got[1].At.Add(c.after))
		if err != nil || n != c.gone {
			t.Errorf("after %s: %d went, %v; want %d", c.after, n, err, c.gone)
		}
	}
	if tip, err := w.hub.Tip(ejected); err != nil || !tip.IsZero() {
		t.Errorf("%s is %q, %v", ejected, tip, err)
	}
	if tip, err := w.hub.Tip(unknown); err != nil || string(tip) != base {
		t.Errorf("%s is %q, %v", unknown, tip, err)
	}
}
