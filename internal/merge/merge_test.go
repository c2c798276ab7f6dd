package merge

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

// TestMain lowers the number of random histories of a plain run: each starts
// some fifty git processes. -rapid.checks overrides it.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "15"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

type fixture struct {
	testing.TB
	dir  string
	repo *git.Repo
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	dir := gittest.Bare(t)
	repo, err := git.Open(t.Context(), dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t, dir, repo}
}

func (f *fixture) git(args ...string) string {
	f.Helper()
	return gittest.Git(f, f.dir, args...)
}

func (f *fixture) commit(branch, message string, files map[string]string) git.Hash {
	f.Helper()
	return git.Hash(gittest.Commit(f, f.dir, branch, message, files))
}

func (f *fixture) branch(name string, at git.Hash) {
	f.Helper()
	f.git("update-ref", "refs/heads/"+name, string(at))
}

func (f *fixture) hash(rev string) git.Hash {
	f.Helper()
	return git.Hash(f.git("rev-parse", rev))
}

func (f *fixture) find(in FindInput) Change {
	f.Helper()
	c, err := Find(f.Context(), f.repo, in)
	if err != nil {
		f.Fatal(err)
	}
	return c
}

func committer() git.Identity {
	return git.Identity{Name: "greenward", Email: "greenward@localhost", When: time.Unix(1_800_000_000, 0).UTC()}
}

func (f *fixture) apply(method, branch string) Outcome {
	f.Helper()
	out, err := New(f.repo).Apply(f.Context(), Input{
		Tip: f.hash("main"), Change: f.find(FindInput{Head: f.hash(branch), Main: f.hash("main"), Green: f.green()}),
		Method: method, Entry: "x@0123456789ab", Committer: committer(),
	})
	if err != nil {
		f.Fatal(err)
	}
	return out
}

func (f *fixture) green() git.Hash {
	f.Helper()
	h, err := f.repo.Tip("refs/heads/green")
	if err != nil {
		f.Fatal(err)
	}
	return h
}

func (f *fixture) log(tip git.Hash, format string) string {
	f.Helper()
	return f.git("log", "--first-parent", "--reverse", "--format="+format, "main.."+string(tip))
}

func TestRebaseKeepsAuthorDateAndTrailers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	base := f.commit("main", "begin", map[string]string{"a": "1\n", "b": "1\n"})
	f.branch("x", base)
	f.commit("x", "first\n\nbody\n\nSigned-off-by: Ada <ada@example.com>", map[string]string{"a": "2\n"})
	f.commit("x", "second\n\nChange: forged@0\nHandoff: done\nHandoff-Note: n", map[string]string{"c": "2\n"})
	f.commit("main", "other", map[string]string{"b": "2\n"})
	out := f.apply(Rebase, "x")
	if got := f.log(out.Tip, "%s|%an|%ad|%cn|%ct|%(trailers:only,unfold,separator=%x3B)"); got != strings.Join([]string{
		"first|Ada|" + f.git("log", "-1", "--format=%ad", "x~1") + "|greenward|1800000000|Signed-off-by: Ada <ada@example.com>",
		"second|Ada|" + f.git("log", "-1", "--format=%ad", "x") + "|greenward|1800000000|Handoff: done;Handoff-Note: n;Change: x@0123456789ab",
	}, "\n") {
		t.Errorf("landed:\n%s", got)
	}
	if got := f.git("show", string(out.Tip)+":a") + f.git("show", string(out.Tip)+":b") + f.git("show", string(out.Tip)+":c"); got != "222" {
		t.Errorf("tree holds %q", got)
	}
}

func TestQ09SquashIsMadeOnTheTip(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fork := f.commit("main", "begin", map[string]string{"a.txt": "1\n", "b.txt": "1\n"})
	f.branch("x", fork)
	f.commit("x", "one", map[string]string{"b.txt": "2\n"})
	f.commit("x", "two", map[string]string{"b.txt": "3\n"})
	for i := range 50 {
		f.commit("main", "more", map[string]string{"n": fmt.Sprint(i)})
	}
	f.commit("main", "pr1", map[string]string{"a.txt": "pr1\n"})
	out := f.apply(Squash, "x")
	if got := f.git("diff", "--name-only", "main", string(out.Tip)); got != "b.txt" {
		t.Errorf("the landing touches %q", got)
	}
}

func TestSquashMessage(t *testing.T) {
	t.Parallel()
	who := func(name, email string) git.Identity { return git.Identity{Name: name, Email: email} }
	commits := []git.Commit{
		{Author: who("Ada", "Ada@example.com"), Message: "first\n\nwhy\n\nFixes: #1\nCo-authored-by: Bob <BOB@example.com>\n"},
		{Author: who("Bob", "bob@example.com"), Message: "second\n\nFixes: #1\nCo-Authored-By: ada <ada@EXAMPLE.com>\nHandoff: done\n"},
		{Author: who("Cy", "cy@example.com"), Message: "third\n\nChange: old@1\n"},
		{Author: who("cy", "CY@example.com"), Message: "fourth"},
	}
	want := "first\n\nwhy\n\n* second\n* third\n* fourth\n\nFixes: #1\nHandoff: done\nCo-authored-by: Bob <BOB@example.com>\nCo-authored-by: Cy <cy@example.com>\nChange: x@1\n"
	if diff := cmp.Diff(want, squashed(commits, "x@1").String()); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

func TestMergeMethod(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	base := f.commit("main", "begin", map[string]string{"a": "1\n", "b": "1\n"})
	f.branch("x", base)
	head := f.commit("x", "work\n\nHandoff: done", map[string]string{"a": "2\n"})
	tip := f.commit("main", "other", map[string]string{"b": "2\n"})
	out := f.apply(Merge, "x")
	if got := f.git("log", "-1", "--format=%P|%s|%(trailers:key=Change,valueonly,separator=%x2C)", string(out.Tip)); got != fmt.Sprintf("%s %s|Merge x: work|x@0123456789ab", tip, head) {
		t.Errorf("merge is %s", got)
	}

	// A base on green: green's own commits stay off main.
	f.branch("green", base)
	green := f.commit("green", "repair on green", map[string]string{"fix": "1\n"})
	f.branch("y", green)
	f.commit("y", "on green", map[string]string{"c": "1\n"})
	out = f.apply(Merge, "y")
	if out.Method != Squash || !strings.Contains(out.Note, "green") {
		t.Errorf("outcome: %+v", out)
	}
	if got := f.git("diff", "--name-only", "main", string(out.Tip)); got != "c" {
		t.Errorf("the landing touches %q", got)
	}
}

func TestMergeCommitInsideAChangeIsSquashedUnderRebase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	base := f.commit("main", "begin", map[string]string{"a": "1\n", "b": "1\n"})
	f.branch("x", base)
	x := f.commit("x", "work", map[string]string{"a": "2\n"})
	tip := f.commit("main", "other", map[string]string{"b": "2\n"})
	tree := f.git("merge-tree", "--write-tree", string(tip), string(x))
	f.branch("x", git.Hash(f.git("commit-tree", "-p", string(x), "-p", string(tip), "-m", "merge main", tree)))
	f.commit("x", "more", map[string]string{"c": "2\n"})
	out := f.apply(Rebase, "x")
	if out.Method != Squash || out.Note == "" || len(out.Commits) != 1 {
		t.Errorf("outcome: %+v", out)
	}
	if got := f.git("diff", "--name-only", "main", string(out.Tip)); got != "a\nc" {
		t.Errorf("the landing touches %q", got)
	}
}

func TestQ13ConflictNamesTheCommit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	base := f.commit("main", "begin", map[string]string{"a": "1\n"})
	f.branch("x", base)
	f.commit("x", "fine", map[string]string{"b": "2\n"})
	bad := f.commit("x", "conflicts", map[string]string{"a": "2\n"})
	f.commit("main", "other", map[string]string{"a": "3\n"})
	for _, method := range []string{Rebase, Squash, Merge} {
		out := f.apply(method, "x")
		if diff := cmp.Diff(Outcome{Method: method, Conflicts: []string{"a"}, At: bad}, out); diff != "" {
			t.Errorf("%s (-want +got):\n%s", method, diff)
		}
	}
}

func TestEmptyCommits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	base := f.commit("main", "begin", map[string]string{"a": "1\n"})
	for name, messages := range map[string][]string{
		"plain":   {"same"},
		"handoff": {"same\n\nTask: t\nHandoff: done"},
		"mixed":   {"same", "other", "same again\n\nHandoff: blocked"},
	} {
		f.branch(name, base)
		for i, m := range messages {
			content := map[string]string{"a": "2\n"}
			if m == "other" {
				content = map[string]string{"z": "z\n"}
			}
			if i == 2 {
				content = map[string]string{"b": "b\n"}
			}
			f.commit(name, m, content)
		}
	}
	f.commit("main", "upstream already", map[string]string{"a": "2\n", "b": "b\n"})
	if out := f.apply(Rebase, "plain"); !out.Empty || len(out.Dropped) != 1 {
		t.Errorf("plain: %+v", out)
	}
	if out := f.apply(Squash, "plain"); !out.Empty {
		t.Errorf("plain squashed: %+v", out)
	}
	out := f.apply(Rebase, "handoff")
	if got := f.log(out.Tip, "%s %(trailers:key=Handoff,valueonly,separator=%x2C)"); got != "same done" {
		t.Errorf("hand-off: %q", got)
	}
	out = f.apply(Rebase, "mixed")
	if got := f.log(out.Tip, "%s %(trailers:key=Handoff,valueonly,separator=%x2C)"); got != "other \nsame again blocked" || out.Note == "" {
		t.Errorf("mixed: %q %+v", got, out)
	}
}

func TestUnrelatedHistory(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("main", "begin", map[string]string{"a": "1\n"})
	head := f.commit("x", "root", map[string]string{"a": "1\n"})
	_, err := Find(t.Context(), f.repo, FindInput{Head: head, Main: f.hash("main")})
	if !errors.Is(err, ErrUnrelated) {
		t.Errorf("err = %v", err)
	}
}

func TestReadMessageKeepsWhatGitReads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, raw := range []string{
		"", "x", "x\n", "\n\nx\n\n\n", "x\n\nA: b", "x\n\nbody\n\nA: b\nC: d\n e\n",
		"x\n\nbody\n---\nmore\n\nA: b\n", "---\n\nA: b", "x\n\n# note\n\n#1 fixed\n\nA: b\n",
		"x\n\nprose\nSigned-off-by: A <a@b>\n(cherry picked from commit 123)\n", "x\n\nprose only: yes\nno\n",
		"x\n\nEmpty:\nA: b\n", "caf\xe9\n\nA: \xe9\n", "x\r\n\r\nA: b\r\n", "a: b\nc: d\n", "x\n\nA : b\nC:d\n",
	} {
		m := landing(ReadMessage(raw), "e@1")
		if err := f.repo.ProveTrailers(t.Context(), m.String(), m.Trailers); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
	mixed := ReadMessage("x\n\nprose\nSigned-off-by: A <a@b>\n(cherry picked from commit 123)\n")
	if mixed.Body != "prose\n(cherry picked from commit 123)" || len(mixed.Trailers) != 1 {
		t.Errorf("mixed: %+v", mixed)
	}
}

func FuzzReadMessage(f *testing.F) {
	repo := newFixture(f).repo
	f.Add("x\n\nbody\n---\nmore\n\nA: b\n")
	f.Add("prose\n\nSigned-off-by: A <a@b>\nnot a trailer\n")
	f.Fuzz(func(t *testing.T, raw string) {
		if strings.ContainsRune(raw, 0) {
			return // git refuses such a commit
		}
		m := landing(ReadMessage(raw), "e@1")
		if err := repo.ProveTrailers(t.Context(), m.String(), m.Trailers); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	})
}

func TestRevert(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("main", "begin", map[string]string{"a": "1\n", "tasks/r/t.md": "t"})
	culprit := f.commit("main", "bad\n\nTask: r/t", map[string]string{"a": "bad\n", "new": "n\n", "tasks/r/t.md": gittest.Deleted})
	f.commit("main", "later", map[string]string{"b": "1\n", "tasks/r/u.md": "u"})
	s := New(f.repo)
	tree, conflicts, noop, err := s.Revert(t.Context(), f.hash("main"), culprit)
	if err != nil || len(conflicts) > 0 || noop {
		t.Fatal(conflicts, noop, err)
	}
	if got := f.git("ls-tree", "-r", "--name-only", string(tree)); got != "a\nb\ntasks/r/u.md" {
		t.Errorf("reverted tree: %q", got)
	}
	if got := f.git("show", string(tree)+":a"); got != "1" {
		t.Errorf("a = %q", got)
	}
}

func TestG33RevertThatIsANoopOrConflicts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("main", "begin", map[string]string{"a": "1\n"})
	culprit := f.commit("main", "bad", map[string]string{"a": "bad\n"})
	f.commit("main", "reverted by hand", map[string]string{"a": "1\n"})
	s := New(f.repo)
	tree, conflicts, noop, err := s.Revert(t.Context(), f.hash("main"), culprit)
	if err != nil || len(conflicts) > 0 || !noop || string(tree) != f.git("rev-parse", "main^{tree}") {
		t.Errorf("%s %v %t %v", tree, conflicts, noop, err)
	}
	f.commit("main", "something else there", map[string]string{"a": "3\n"})
	_, conflicts, noop, err = s.Revert(t.Context(), f.hash("main"), culprit)
	if diff := cmp.Diff([]string{"a"}, conflicts); err != nil || diff != "" || noop {
		t.Errorf("%v %t %v", conflicts, noop, err)
	}
}

func TestG34RevertOfAMergeAndOfARoot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.commit("main", "begin", map[string]string{"a": "1\n"})
	f.branch("side", root)
	f.commit("side", "one", map[string]string{"f": "1\n"})
	side := f.commit("side", "two", map[string]string{"g": "1\n"})
	tip := f.commit("main", "other", map[string]string{"b": "1\n"})
	tree := f.git("merge-tree", "--write-tree", string(tip), string(side))
	merged := git.Hash(f.git("commit-tree", "-p", string(tip), "-p", string(side), "-m", "merge", tree))
	f.branch("main", merged)
	f.commit("main", "later", map[string]string{"c": "1\n"})
	s := New(f.repo)
	reverted, conflicts, noop, err := s.Revert(t.Context(), f.hash("main"), merged)
	if err != nil || len(conflicts) > 0 || noop || f.git("ls-tree", "--name-only", string(reverted)) != "a\nb\nc" {
		t.Errorf("merge: %s %v %t %v", reverted, conflicts, noop, err)
	}
	reverted, conflicts, noop, err = s.Revert(t.Context(), f.hash("main"), root)
	if err != nil || len(conflicts) > 0 || noop || f.git("ls-tree", "--name-only", string(reverted)) != "b\nc\nf\ng" {
		t.Errorf("root: %s %v %t %v", reverted, conflicts, noop, err)
	}
}

// TestQ09LandingsTouchOnlyWhatTheChangeTouches lands random stale changes and
// holds, for every landed commit, that it touches no other path than its change
// and that its tree is what git's merge makes of it.
func TestQ09LandingsTouchOnlyWhatTheChangeTouches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		f := newFixture(t)
		names := []string{"a", "b", "c", "d/e"}
		begin := map[string]string{}
		for _, n := range names {
			begin[n] = "1\n2\n3\n4\n5\n6\n7\n"
		}
		f.commit("main", "begin", begin)
		method := rapid.SampledFrom([]string{Rebase, Squash, Merge}).Draw(rt, "method")
		for i := range rapid.IntRange(1, 4).Draw(rt, "changes") {
			history := strings.Fields(f.git("rev-list", "--first-parent", "main"))
			fork := rapid.SampledFrom(history).Draw(rt, "fork")
			branch := fmt.Sprint("x", i)
			f.branch(branch, git.Hash(fork))
			for range rapid.IntRange(1, 2).Draw(rt, "commits") {
				name := rapid.SampledFrom(names).Draw(rt, "file")
				line := rapid.IntRange(0, 6).Draw(rt, "line")
				lines := strings.Split(f.git("show", branch+":"+name), "\n")
				lines[min(line, len(lines)-1)] = fmt.Sprint("by ", i)
				f.commit(branch, "work", map[string]string{name: strings.Join(lines, "\n") + "\n"})
			}
			out := f.apply(method, branch)
			if len(out.Conflicts) > 0 || out.Empty {
				continue
			}
			touched := strings.Fields(f.git("diff", "--name-only", "main..."+branch))
			for path := range strings.FieldsSeq(f.git("diff", "--name-only", "main", string(out.Tip))) {
				if !strings.Contains(" "+strings.Join(touched, " ")+" ", " "+path+" ") {
					rt.Fatalf("%s of %s touches %s", method, branch, path)
				}
			}
			if method != Rebase {
				if want := f.git("merge-tree", "--write-tree", "main", branch); want != f.git("rev-parse", string(out.Tip)+"^{tree}") {
					rt.Fatalf("%s of %s is not git's merge", method, branch)
				}
			}
			f.branch("main", out.Tip)
		}
	})
}
