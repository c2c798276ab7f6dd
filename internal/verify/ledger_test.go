package verify

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

func (b *bench) ids(tb testing.TB, on git.Hash) []string {
	tb.Helper()
	runs, err := b.ledger.For(on, check("test", "true"))
	if err != nil {
		tb.Fatal(err)
	}
	ids := []string{}
	for _, r := range runs {
		ids = append(ids, r.Run)
	}
	slices.Sort(ids)
	return ids
}

func TestLedgerAddsWhatGitShows(t *testing.T) {
	b := newBench(t)
	on := b.commit(t, map[string]string{"a": "1"}).Commit
	run := signed(t, b.signer, someRun(on, "r1", Passed))
	add(t, b.ledger, run)
	text, err := run.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got := gittest.Git(t, b.dir, "notes", "--ref=greenward", "show", string(on)); got != string(text) {
		t.Errorf("git notes show: got %q, want %q", got, text)
	}
	if got := gittest.Git(t, b.dir, "fsck", "--strict", "--no-dangling"); got != "" {
		t.Errorf("fsck: %s", got)
	}
	again, err := OpenLedger(b.repo, []string{"ops@example.com " + b.signer.Public() + " the hub"})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := again.For(on, check("test", "true"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Run{run}, runs); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestLedgerIsIdempotentByKey(t *testing.T) {
	b := newBench(t)
	on := b.commit(t, map[string]string{"a": "1"}).Commit
	run := signed(t, b.signer, someRun(on, "r1", Failed))
	add(t, b.ledger, run)
	tip := gittest.Git(t, b.dir, "rev-parse", "refs/notes/greenward")
	late := run
	late.Verdict = Passed // the same run told otherwise
	add(t, b.ledger, run, signed(t, b.signer, late))
	if got := gittest.Git(t, b.dir, "rev-parse", "refs/notes/greenward"); got != tip {
		t.Errorf("the ref moved from %s to %s for nothing new", tip, got)
	}
}

func TestLedgerReadsEveryFanOut(t *testing.T) {
	b := newBench(t)
	on := b.commit(t, map[string]string{"a": "1"}).Commit
	hex := string(on)
	var want []string
	var edits []git.Edit
	for i, path := range []string{hex, hex[:2] + "/" + hex[2:], hex[:2] + "/" + hex[2:4] + "/" + hex[4:]} {
		id := fmt.Sprintf("r%d", i)
		line, err := signed(t, b.signer, someRun(on, id, Passed)).encode()
		if err != nil {
			t.Fatal(err)
		}
		blob, err := b.repo.WriteBlob(append(line, '\n'))
		if err != nil {
			t.Fatal(err)
		}
		edits = append(edits, git.Edit{Path: path, Hash: blob})
		want = append(want, id)
	}
	if _, err := b.repo.WriteTree(nil); err != nil {
		t.Fatal(err)
	}
	readme, err := b.repo.WriteBlob([]byte("no note\n"))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := b.repo.EditTree(git.EmptyTree, append(edits, git.Edit{Path: "README", Hash: readme}))
	if err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, b.dir, "update-ref", "refs/notes/greenward", gittest.Git(t, b.dir, "commit-tree", "-m", "notes", string(tree)))
	if diff := cmp.Diff(want, b.ids(t, on)); diff != "" {
		t.Fatalf("before adding (-want +got):\n%s", diff)
	}
	add(t, b.ledger, signed(t, b.signer, someRun(on, "r3", Passed)))
	if diff := cmp.Diff(append(want, "r3"), b.ids(t, on)); diff != "" {
		t.Errorf("after adding (-want +got):\n%s", diff)
	}
	if n := strings.Count(gittest.Git(t, b.dir, "notes", "--ref=greenward", "show", hex), "\n") + 1; n != 4 {
		t.Errorf("git notes show prints %d lines, want 4", n)
	}
	if got := gittest.Git(t, b.dir, "ls-tree", "-r", "--name-only", "refs/notes/greenward"); strings.Count(got, "\n") != 1 || !strings.Contains(got, "README") {
		t.Errorf("tree after adding:\n%s", got)
	}
}

func TestLedgerMergesByCatSortUniq(t *testing.T) {
	b := newBench(t)
	on := b.commit(t, map[string]string{"a": "1"}).Commit
	add(t, b.ledger, signed(t, b.signer, someRun(on, "r1", Passed)))
	other := openBench(t, gittest.Bare(t), gittest.Host(t))
	gittest.Git(t, other.dir, "fetch", "-q", b.dir, "+refs/heads/*:refs/heads/*", "+refs/notes/*:refs/notes/*")
	add(t, other.ledger, signed(t, b.signer, someRun(on, "r2", Failed)))
	add(t, b.ledger, signed(t, b.signer, someRun(on, "r3", Passed)))
	work := t.TempDir()
	gittest.Git(t, work, "clone", "-q", b.dir, ".")
	gittest.Git(t, work, "fetch", "-q", b.dir, "+refs/notes/greenward:refs/notes/greenward")
	gittest.Git(t, work, "fetch", "-q", other.dir, "+refs/notes/greenward:refs/notes/theirs")
	gittest.Git(t, work, "notes", "--ref=greenward", "merge", "-s", "cat_sort_uniq", "refs/notes/theirs")
	gittest.Git(t, work, "push", "-q", b.dir, "refs/notes/greenward")
	if diff := cmp.Diff([]string{"r1", "r2", "r3"}, b.ids(t, on)); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	merged := gittest.Git(t, work, "notes", "--ref=greenward", "show", string(on))
	if got := string(git.MergeLines([]byte(merged))); got != merged+"\n" {
		t.Errorf("git's order is not ours:\n%s", cmp.Diff(merged+"\n", got))
	}
}

func TestLedgerCountsTrustedLinesOnly(t *testing.T) {
	b := newBench(t)
	on := b.commit(t, map[string]string{"a": "1"}).Commit
	stranger, err := git.LoadKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	forged := signed(t, b.signer, someRun(on, "r3", Failed))
	forged.Verdict = Passed
	add(t, b.ledger,
		someRun(on, "r1", Passed),
		signed(t, stranger, someRun(on, "r2", Passed)),
		forged,
	)
	if got := b.ids(t, on); len(got) != 0 {
		t.Errorf("lines that count: %q", got)
	}
	hints, err := b.ledger.Hints(on, check("test", "true"))
	if err != nil || len(hints) != 3 {
		t.Errorf("hints: %d, %v; want 3", len(hints), err)
	}
	// A line that does not count must not keep ours with the same key out.
	add(t, b.ledger, signed(t, b.signer, someRun(on, "r1", Failed)))
	if diff := cmp.Diff([]string{"r1"}, b.ids(t, on)); diff != "" {
		t.Errorf("lines that count (-want +got):\n%s", diff)
	}
	all, err := b.ledger.All()
	if err != nil || len(all) != 4 {
		t.Errorf("all: %d lines, %v; want 4", len(all), err)
	}
}

func TestLedgerSkipsAndReportsMalformedLines(t *testing.T) {
	b := newBench(t)
	on := b.commit(t, map[string]string{"a": "1"}).Commit
	add(t, b.ledger, signed(t, b.signer, someRun(on, "r1", Passed)))
	bad := "not json\n{\"key\":1}\n{}\n\xff\xfe\n" + strings.Repeat("x", maxLine+1)
	note := filepath.Join(t.TempDir(), "note")
	writeFile(t, note, bad)
	gittest.Git(t, b.dir, "notes", "--ref=greenward", "append", "-F", note, string(on))
	if diff := cmp.Diff([]string{"r1"}, b.ids(t, on)); diff != "" {
		t.Errorf("lines that count (-want +got):\n%s", diff)
	}
	faults, err := b.ledger.Faults()
	if err != nil || len(faults) != 5 {
		t.Fatalf("faults: %+v, %v; want 5", faults, err)
	}
	if faults[0].Note != on || faults[0].Line == 0 || faults[0].Problem == "" {
		t.Errorf("fault: %+v", faults[0])
	}
	// What cannot be read is somebody's: adding keeps it.
	add(t, b.ledger, signed(t, b.signer, someRun(on, "r2", Passed)))
	if got := gittest.Git(t, b.dir, "notes", "--ref=greenward", "show", string(on)); !strings.Contains(got, "not json") {
		t.Error("adding a line removed a malformed one")
	}
}

func TestLedgerForgetsWhatWasTakenBack(t *testing.T) {
	b := newBench(t)
	on := b.commit(t, map[string]string{"a": "1"}).Commit
	before := gittest.Git(t, b.dir, "rev-parse", "main")
	add(t, b.ledger, signed(t, b.signer, someRun(on, "r1", Passed)))
	if got := b.ids(t, on); len(got) != 1 {
		t.Fatalf("got %q", got)
	}
	gittest.Git(t, b.dir, "notes", "--ref=greenward", "remove", before)
	if got := b.ids(t, on); len(got) != 0 {
		t.Errorf("after remove: %q", got)
	}
	gittest.Git(t, b.dir, "update-ref", "-d", "refs/notes/greenward")
	add(t, b.ledger, signed(t, b.signer, someRun(on, "r2", Passed)))
	if diff := cmp.Diff([]string{"r2"}, b.ids(t, on)); diff != "" {
		t.Errorf("after the ref was deleted (-want +got):\n%s", diff)
	}
}

func TestLedgerWritersDoNotLoseEachOther(t *testing.T) {
	b := newBench(t)
	on := b.commit(t, map[string]string{"a": "1"}).Commit
	const writers, each = 4, 5
	var group errgroup.Group
	var want []string
	for w := range writers {
		l := openBench(t, b.dir, gittest.Host(t)).ledger // as another process has
		var runs []Run
		for i := range each {
			id := fmt.Sprintf("w%dr%d", w, i)
			want = append(want, id)
			runs = append(runs, signed(t, b.signer, someRun(on, id, Passed)))
		}
		group.Go(func() error {
			for _, r := range runs {
				if err := l.Add(t.Context(), []Run{r}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.ids(t, on)); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

func TestLedgerRefusesWhatWouldNotReadBack(t *testing.T) {
	b := newBench(t)
	on := b.commit(t, map[string]string{"a": "1"}).Commit
	tests := map[string]func(*Run){
		"key":     func(r *Run) { r.Key = "elsewhere" },
		"tree":    func(r *Run) { r.Tree = "" },
		"verdict": func(r *Run) { r.Verdict = "fine" },
		"run":     func(r *Run) { r.Run = "a/b" },
		"why":     func(r *Run) { r.Why = strings.Repeat("x", maxLine) },
	}
	for name, spoil := range tests {
		r := someRun(on, "r1", Passed)
		spoil(&r)
		if err := b.ledger.Add(t.Context(), []Run{r}); err == nil {
			t.Errorf("%s: was added", name)
		}
	}
	if _, err := b.repo.Resolve(git.Notes); !errors.Is(err, git.ErrNotFound) {
		t.Errorf("the ref is there: %v", err)
	}
	if _, err := OpenLedger(b.repo, []string{"nonsense"}); err == nil {
		t.Error("nonsense was trusted")
	}
}

func readLine(text []byte) *line { return &line{text: text} }

func FuzzDecode(f *testing.F) {
	signer, err := git.LoadKey(filepath.Join(f.TempDir(), "key"))
	if err != nil {
		f.Fatal(err)
	}
	run := signed(f, signer, someRun(git.EmptyTree, "r1", Passed))
	line, err := run.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte(`{"key":"a","sig":"b"}`))
	f.Add([]byte(`{"why":",\"sig\":\"x\"}"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		got, payload, err := decode(line)
		if err != nil {
			return
		}
		if one := readLine(line); one.peek() && one.read() {
			if topic, err := got.topic(); err != nil || one.topic != topic || one.id != got.Run {
				t.Errorf("found under %+v %q, but it says %+v %q", one.topic, one.id, topic, got.Run)
			}
		}
		if public, err := git.VerifySSH(got.Sig, namespace, payload); err == nil && public == signer.Public() {
			// Whatever verifies says exactly what was signed; a fuzzing worker has a key of its own.
			if diff := cmp.Diff(run, got); diff != "" {
				t.Errorf("a forged line verifies (-signed +read):\n%s", diff)
			}
		}
		if got.Started.IsZero() || got.Finished.IsZero() || len(line) > maxLine/4 {
			return
		}
		text, err := got.encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		back, _, err := decode(text)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		got.Started, got.Finished = stamp(got.Started), stamp(got.Finished)
		if diff := cmp.Diff(got, back); diff != "" {
			t.Errorf("does not read back (-want +got):\n%s", diff)
		}
	})
}
