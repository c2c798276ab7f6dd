package designs

import (
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

// What is said of green comes from a look at all its files: a bug that nobody found
// is seen there, and one that was found is gone from it.
func TestRedGreenIsSeen(t *testing.T) {
	t.Parallel()
	l := &Lab{Params: Default(), Seed: 1, Dir: t.TempDir(), Host: gittest.Host(t), Now: time.Now, Say: t.Logf}
	l.Params.Files = 10
	w, closed, err := l.world(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer closed()
	if err := w.found(); err != nil {
		t.Fatal(err)
	}
	e, err := w.edit(hot(3), [][]byte{[]byte("file 3"), bugLine(7), []byte("end")})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := w.repo.EditTree(w.tip, []git.Edit{e})
	if err != nil {
		t.Fatal(err)
	}
	w.clock.now = time.Hour
	if err := w.promote(tree, nil); err != nil || w.greenRedFrom != time.Hour {
		t.Fatalf("an unseen bug: red since %s, %v", w.greenRedFrom, err)
	}
	w.clock.now = 90 * time.Minute
	if err := w.promote(tree, map[int]bug{7: {path: hot(3)}}); err != nil || w.greenRedFrom >= 0 || w.GreenRed != 0.5 {
		t.Errorf("a found bug: red since %s, %g hours, %v", w.greenRedFrom, w.GreenRed, err)
	}
}
