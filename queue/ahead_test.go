package queue

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"greenward/internal/gittest"
)

// Many batches, each merged while the one before it is tidied up and what comes
// next is read: every entry is decided once, as when it lands alone, and what is
// settled is the whole log.
func TestBatchesBesideReadingAheadDecideAsEachAlone(t *testing.T) {
	t.Parallel()
	const n = 30
	run := func(batch int) ([]string, string) {
		files := map[string]string{"shared.txt": strings.Repeat("line\n", 20)}
		for i := range n {
			files[fmt.Sprintf("d%d/f%d.txt", i%7, i)] = "before\n"
		}
		w := newWorld(t, files)
		start := gittest.Start().Add(time.Hour)
		w.lander.Now = func() time.Time { return start } // or the pass reads again after every record
		w.lander.Batch = batch
		base := w.git("rev-parse", "main")
		for i := range n {
			change := map[string]string{fmt.Sprintf("d%d/f%d.txt", i%7, i): fmt.Sprint("after ", i, "\n")}
			switch i % 10 {
			case 3:
				change = map[string]string{"shared.txt": strings.Repeat("line\n", 20) + fmt.Sprint("end ", i, "\n")}
			case 7:
				change[fmt.Sprint("c", i, ".txt")] = "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n"
			}
			w.branch(fmt.Sprintf("c%02d", i), base, "change", change)
		}
		got := brief(w.land())
		slices.Sort(got)
		w.wantNoQueue()
		settled, err := os.ReadFile(w.lander.settledPath())
		if err != nil || string(settled) != string(w.lander.log.Tip()) {
			t.Errorf("settled is %q, the log's tip %q, %v", settled, w.lander.log.Tip(), err)
		}
		if report, err := Audit(t.Context(), w.hub, "", ""); err != nil || len(report.Mismatches) > 0 {
			t.Errorf("audit: %+v, %v", report, err)
		}
		w.git("fsck", "--strict", "--no-dangling")
		return got, w.git("rev-parse", "main^{tree}")
	}
	alone, tree := run(1)
	if len(alone) != n || !slices.Contains(alone, "c07 ejected gate [c7.txt]") || !slices.Contains(alone, "c13 ejected conflict [shared.txt]") {
		t.Fatalf("decided: %q", alone)
	}
	for _, batch := range []int{7, 50} {
		if got, same := run(batch); !slices.Equal(got, alone) || same != tree {
			t.Errorf("in batches of %d: tree %s, want %s; %q", batch, same, tree, got)
		}
	}
}
