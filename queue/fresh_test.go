package queue

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A pass goes on with what it has read, record after record, until something that
// it has read moves.
func TestManyRecordsOfOnePass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n", ".greenward.yml": "queue: {method: rebase}\n"})
	base := w.git("rev-parse", "main")
	now := time.Now()
	w.lander.Now = func() time.Time { return now } // the time in which what was read is fresh does not pass
	w.lander.Batch = 2
	for i := range 9 {
		files := map[string]string{fmt.Sprint("d/f", i): "x\n"}
		switch i {
		case 3:
			files = map[string]string{"a.txt": "one\n2\n3\n4\n5\n6\n7\n8\n"}
		case 4:
			files = map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\neight\n"} // merged with the one before
		case 5:
			files = map[string]string{config.File: "queue: {method: squash}\n"}
		case 6:
			files = map[string]string{"a.txt": "uno\n2\n3\n4\n5\n6\n7\n8\n"}
		}
		w.branch(fmt.Sprint("c", i), base, fmt.Sprint("change ", i), files)
		if i == 8 {
			w.branch("c8", base, "change 8 again", map[string]string{"more": "x\n"})
		}
	}
	got := w.land()
	w.wantLanded(got, "c0 landed", "c1 landed", "c2 landed", "c3 landed", "c4 landed", "c5 landed", "c6 ejected conflict [a.txt]", "c7 landed", "c8 landed")
	if last := got[len(got)-1]; last.Method != "squash" {
		t.Errorf("c8 landed by %q: the policy that landed before it was not read", last.Method)
	}
	if report, err := Audit(t.Context(), w.hub, git.Hash(base), ""); err != nil || len(report.Mismatches) != 0 {
		t.Errorf("audit: %+v, %v", report, err)
	}
	w.wantNoQueue()
}

func TestFreshRecordNeedsNoOtherReading(t *testing.T) {
	t.Parallel()
	now := gittest.Start()
	list := []Waiting{{Entry: "a@1", Head: "1"}, {Entry: "b@2", Head: "2"}, {Entry: "c@3", Head: "3"}}
	s, effects := State{}.Step(Read{Main: "m", Batch: 1, Waiting: list}, now)
	step := func(e Event, want Effect) {
		t.Helper()
		if s, effects = s.Step(e, now); len(effects) != 1 || !cmp.Equal(effects[0], want, cmpopts.IgnoreFields(Record{}, "Decisions")) {
			t.Errorf("after %T: %+v, want %+v", e, effects, want)
		}
	}
	step(Merged{Entry: "a@1", Tip: "A"}, Record{From: "m", To: "A"})
	step(Recorded{Fresh: true}, Merge{Waiting: list[1], Tip: "A"})
	step(Found{Entry: "b@2", Reason: journal.ReasonConflict}, Record{From: "A", To: "A"})
	step(Recorded{Fresh: true}, Merge{Waiting: list[2], Tip: "A"})
	step(Merged{Entry: "c@3", Tip: "C"}, Record{From: "A", To: "C"})
	step(Recorded{Fresh: true}, Reread{}) // who else came meanwhile?
	s, _ = State{}.Step(Read{Main: "m", Batch: 1, Waiting: list}, now)
	step(Merged{Entry: "a@1", Tip: "A"}, Record{From: "m", To: "A"})
	step(Recorded{}, Reread{})
}

// The power goes while a landing is written: its objects are torn, its refs did
// not move. The next life lands everything, and nothing torn is reachable.
func TestPowerCutWhileObjectsAreWritten(t *testing.T) {
	t.Parallel()
	for _, changes := range []int{3, 60} { // loose objects, a pack
		t.Run(fmt.Sprint(changes), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			base := w.git("rev-parse", "main")
			for i := range changes {
				w.branch(fmt.Sprintf("c%03d", i), base, "change", map[string]string{fmt.Sprint("d", i%5, "/f", i): "x\n"})
			}
			cut := filepath.Join(t.TempDir(), "cut.git")
			host := gittest.Host(t)
			host.Fault = func(label string) {
				if _, err := os.Stat(cut); err == nil || label != "transact before "+string(git.QueueLog) {
					return
				}
				if err := os.CopyFS(cut, os.DirFS(w.dir)); err != nil {
					t.Error(err)
				}
			}
			w.hub = w.open(host)
			w.lander = w.newLander(w.hub)
			w.land()

			tear(t, cut)
			w.dir = cut
			w.hub = w.open(gittest.Host(t))
			w.lander = w.newLander(w.hub)
			got := w.land()
			if len(got) != changes {
				t.Errorf("%d decided", len(got))
			}
			for _, d := range got {
				if d.State != journal.Landed {
					t.Errorf("%s %s", d.Entry, d.State)
				}
			}
			w.git("rev-list", "--objects", "--all")
			w.git("fsck", "--connectivity-only")
			if report, err := Audit(t.Context(), w.hub, git.Hash(base), ""); err != nil || len(report.Mismatches) != 0 {
				t.Errorf("audit: %+v, %v", report, err)
			}
		})
	}
}

// tear cuts every loose object that no ref reaches in half, and leaves half a pack.
func tear(t *testing.T, dir string) {
	t.Helper()
	reach := map[string]bool{}
	for line := range strings.SplitSeq(gittest.Git(t, dir, "rev-list", "--objects", "--no-object-names", "--all"), "\n") {
		reach[line] = true
	}
	files, err := filepath.Glob(filepath.Join(dir, "objects", "??", "*"))
	if err != nil {
		t.Fatal(err)
	}
	torn := 0
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if reach[filepath.Base(filepath.Dir(name))+filepath.Base(name)] {
			continue
		}
		torn++
		if err := os.Chmod(name, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(name, info.Size()/2); err != nil {
			t.Fatal(err)
		}
	}
	packs, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range packs {
		// Git names a pack when it is whole and synced: the power can only go before.
		if filepath.Ext(name) != ".pack" {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			continue
		}
		half := filepath.Join(filepath.Dir(name), "tmp_pack_cut")
		if err := errors.Join(os.Rename(name, half), os.Chmod(half, 0o600), os.Truncate(half, 50)); err != nil {
			t.Fatal(err)
		}
	}
	if torn+len(packs) == 0 {
		t.Error("nothing was torn")
	}
}

// An earlier power cut left empty files, or halves, under the very names that landings
// now make: they are made whole, by whichever way the merge goes.
func TestTornFilesUnderTheNamesOfResultsAreHealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	text := func(first, last string) string { return first + strings.Repeat("same\n", 20) + last }
	start := w.branch("0-text", w.git("rev-parse", "main"), "a text", map[string]string{"d/both.txt": text("a\n", "z\n"), "d/e/f.txt": "1\n"})
	w.land()
	base := w.git("rev-parse", "main")
	w.branch("1-first", base, "first", map[string]string{"d/both.txt": text("b\n", "z\n")})
	w.branch("2-last", base, "last", map[string]string{"d/both.txt": text("a\n", "y\n")}) // git merges it
	w.branch("3-other", base, "other", map[string]string{"d/e/f.txt": "2\n"})             // a splice
	cut := filepath.Join(t.TempDir(), "cut.git")
	if err := os.CopyFS(cut, os.DirFS(w.dir)); err != nil {
		t.Fatal(err)
	}
	before := w.git("rev-list", "--objects", "--no-object-names", "--all")
	w.wantLanded(w.land(), "1-first landed", "2-last landed", "3-other landed")
	planted := 0
	for h := range strings.FieldsSeq(w.git("rev-list", "--objects", "--no-object-names", "main")) {
		if strings.Contains(before, h) {
			continue
		}
		name := filepath.Join(cut, "objects", h[:2], h[2:])
		torn := []byte("torn")[:4*(planted%2)]
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, torn, 0o600)); err != nil {
			t.Fatal(err)
		}
		planted++
	}
	if planted < 6 || start == "" {
		t.Fatalf("%d objects are torn", planted)
	}
	want := w.git("rev-parse", "main^{tree}")
	w.dir = cut
	w.hub = w.open(gittest.Host(t))
	w.lander = w.newLander(w.hub)
	w.wantLanded(w.land(), "1-first landed", "2-last landed", "3-other landed")
	if got := w.git("rev-parse", "main^{tree}"); got != want {
		t.Errorf("main has another tree")
	}
	w.git("rev-list", "--objects", "--all")
	for line := range strings.Lines(w.git("for-each-ref", "--format=%(objectname)")) {
		w.git("rev-list", "--objects", strings.TrimSpace(line))
	}
	w.git("fsck", "--connectivity-only", "--no-dangling")
}
