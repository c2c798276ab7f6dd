package verify

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

// stress is a ledger that others write to as well.
type stress struct {
	*bench
	random  *rand.Rand
	ledgers []*Ledger // of as many processes
	objects []git.Hash
	want    map[git.Hash][]string // ids that count
	next    int
}

// run is a new signed run on some object.
func (s *stress) run(t *testing.T) Run {
	t.Helper()
	on := s.objects[s.random.IntN(len(s.objects))]
	s.next++
	id := fmt.Sprintf("r%03d", s.next)
	s.want[on] = append(s.want[on], id)
	return signed(t, s.signer, someRun(on, id, []Verdict{Passed, Failed}[s.random.IntN(2)]))
}

func (s *stress) add(t *testing.T) {
	t.Helper()
	var runs []Run
	for range 1 + s.random.IntN(3) {
		runs = append(runs, s.run(t))
	}
	add(t, s.ledgers[s.random.IntN(len(s.ledgers))], runs...)
}

// append writes text to a note of ref as git does.
func (s *stress) append(t *testing.T, ref, text string, on git.Hash) {
	t.Helper()
	note := filepath.Join(t.TempDir(), "note")
	writeFile(t, note, text)
	gittest.Git(t, s.dir, "notes", "--ref="+ref, "append", "-F", note, string(on))
}

func (s *stress) garbage(t *testing.T) {
	t.Helper()
	text := []string{"not json", `{"key":"a/b/c/d"}`, `{"key":"x"`, "\xff\xfe", `{"key":"` + string(s.objects[0]) + `/test/` + testCheck().Def() + `/r001","key":"b"}`}
	s.append(t, "greenward", text[s.random.IntN(len(text))], s.objects[s.random.IntN(len(s.objects))])
}

// diverge adds a line to an older ledger and merges that.
func (s *stress) diverge(t *testing.T) {
	t.Helper()
	old := gittest.Git(t, s.dir, "rev-parse", "refs/notes/greenward")
	s.add(t)
	gittest.Git(t, s.dir, "update-ref", "refs/notes/theirs", old)
	theirs := s.run(t)
	line, err := theirs.encode()
	if err != nil {
		t.Fatal(err)
	}
	s.append(t, "theirs", string(line), theirs.Commit)
	gittest.Git(t, s.dir, "notes", "--ref=greenward", "merge", "-q", "-s", "cat_sort_uniq", "refs/notes/theirs")
}

// fanOut moves the notes to another depth.
func (s *stress) fanOut(t *testing.T) {
	t.Helper()
	deep := s.random.IntN(2) == 0
	var edits []git.Edit
	for entry := range strings.SplitSeq(gittest.Git(t, s.dir, "ls-tree", "-r", "refs/notes/greenward"), "\n") {
		head, path, _ := strings.Cut(entry, "\t")
		blob := git.Hash(head[strings.LastIndex(head, " ")+1:])
		hex := strings.ReplaceAll(path, "/", "")
		to := hex
		if deep {
			to = hex[:2] + "/" + hex[2:4] + "/" + hex[4:]
		}
		edits = append(edits, git.Edit{Path: to, Hash: blob})
	}
	tree, err := s.repo.EditTree(git.EmptyTree, edits)
	if err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, s.dir, "update-ref", "refs/notes/greenward", gittest.Git(t, s.dir, "commit-tree", "-m", "fan-out", "-p", "refs/notes/greenward", string(tree)))
}

func (s *stress) check(t *testing.T, after string) {
	t.Helper()
	for i, l := range s.ledgers {
		for _, on := range s.objects {
			runs, err := l.For(on, testCheck())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range runs {
				got = append(got, r.Run)
			}
			slices.Sort(got)
			if diff := cmp.Diff(s.want[on], got); diff != "" {
				t.Fatalf("after %s ledger %d counts on %s (-want +got):\n%s", after, i, on.Short(), diff)
			}
		}
	}
}

// Whatever others write, however they fan out and merge, and however often git
// repacks, every signed run counts, once.
func TestLedgerUnderStress(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := &stress{bench: newBench(t), random: rand.New(rand.NewPCG(seed, 3)), want: map[git.Hash][]string{}}
			for range 3 {
				s.ledgers = append(s.ledgers, openBench(t, s.dir, gittest.Host(t)).ledger)
			}
			for i := range 6 {
				s.objects = append(s.objects, s.commit(t, map[string]string{"a": fmt.Sprint(i)}).Commit)
			}
			s.add(t)
			steps := map[string]func(*testing.T){
				"adding": s.add, "adding again": s.add, "garbage": s.garbage, "a merge": s.diverge, "another fan-out": s.fanOut,
				"a repack": func(t *testing.T) { t.Helper(); gittest.Git(t, s.dir, "repack", "-adq") },
			}
			names := sortedKeys(steps)
			for range 20 {
				name := names[s.random.IntN(len(names))]
				steps[name](t)
				s.check(t, name)
			}
			if got := gittest.Git(t, s.dir, "fsck", "--no-dangling", "--no-reflogs"); got != "" {
				t.Errorf("fsck: %s", got)
			}
		})
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// A ref that is no ledger is an error that says so, and no panic.
func TestLedgerThatIsNone(t *testing.T) {
	b := newBench(t)
	blob, err := b.repo.WriteBlob([]byte("text\n"))
	if err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, b.dir, "update-ref", "refs/notes/greenward", string(blob))
	if _, err := b.ledger.For(blob, testCheck()); err == nil || !strings.Contains(err.Error(), "read the ledger") {
		t.Errorf("got %v, want an error on reading the ledger", err)
	}
	if err := b.ledger.Add(t.Context(), []Run{signed(t, b.signer, someRun(blob, "r1", Passed))}); err == nil {
		t.Error("a run was added to it")
	}
	gittest.Git(t, b.dir, "update-ref", "-d", "refs/notes/greenward")
	add(t, b.ledger, signed(t, b.signer, someRun(blob, "r1", Passed)))
	if got := b.ids(t, blob); len(got) != 1 {
		t.Errorf("once it is gone: %q, want the run", got)
	}
}
