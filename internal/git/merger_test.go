package git_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

// randomTree writes files into the repository: few names, so that two trees meet.
func randomTree(t *testing.T, r *git.Repo, files map[string]string) git.Hash {
	t.Helper()
	var edits []git.Edit
	for name, text := range files {
		blob, err := r.WriteBlob([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		mode := git.ModeFile
		if strings.HasPrefix(text, "#!") {
			mode = git.ModeExecutable
		}
		if strings.HasPrefix(text, "->") {
			mode = git.ModeSymlink
		}
		edits = append(edits, git.Edit{Path: name, Hash: blob, Mode: mode})
	}
	tree, err := r.WriteTree(nil)
	if err != nil {
		t.Fatal(err)
	}
	if tree, err = r.EditTree(tree, edits); err != nil {
		t.Fatal(err)
	}
	return tree
}

// mutate is what somebody does to a tree: edits, additions, deletions, files and
// directories renamed, files that become directories.
func mutate(rng *rand.Rand, files map[string]string) map[string]string {
	out := maps.Clone(files)
	names := func() []string {
		var all []string
		for name := range out {
			all = append(all, name)
		}
		slices.Sort(all)
		return all
	}
	for range 1 + rng.IntN(3) {
		all := names()
		if len(all) == 0 {
			return out
		}
		name := all[rng.IntN(len(all))]
		dir, _, _ := strings.Cut(name, "/")
		switch rng.IntN(8) {
		case 0, 1: // edit
			lines := strings.Split(out[name], "\n")
			lines[rng.IntN(len(lines))] = fmt.Sprint("edited ", rng.IntN(3))
			out[name] = strings.Join(lines, "\n")
		case 2, 3: // add beside
			out[name[:strings.LastIndex("/"+name, "/")]+fmt.Sprint("new", rng.IntN(3))] = fmt.Sprint("new\n", rng.IntN(2))
		case 4: // delete
			delete(out, name)
		case 5: // rename a file
			out["moved/"+fmt.Sprint(rng.IntN(2))] = out[name]
			delete(out, name)
		case 6: // rename a directory
			for _, n := range all {
				if rest, ok := strings.CutPrefix(n, dir+"/"); ok {
					out[fmt.Sprint("renamed", rng.IntN(2)/2, "/")+rest] = out[n]
					delete(out, n)
				}
			}
		case 7: // another kind
			text := out[name]
			delete(out, name)
			out[name+"/below"] = text
			if rng.IntN(2) == 0 {
				delete(out, name+"/below")
				out[name] = "#!" + text
			}
		}
	}
	// What is a file cannot be a directory as well.
	for _, name := range names() {
		for _, other := range names() {
			if strings.HasPrefix(other, name+"/") {
				delete(out, name)
			}
		}
	}
	return out
}

func TestI2EveryMergeIsGitsOwn(t *testing.T) {
	t.Parallel()
	r, _ := hub(t)
	rng := rand.New(rand.NewPCG(7, 11))
	who := git.Identity{Name: "x", Email: "x@example.com", When: gittest.Start()}
	stage := r.Stage()
	fast, slow := stage.Merger(), stage.Merger()
	slow.Slow = true
	defer close2(t, fast, slow)
	rounds := 150
	if testing.Short() {
		rounds = 40
	}
	for round := range rounds {
		base := map[string]string{}
		for i := range 3 + rng.IntN(8) {
			base[[]string{"a/", "a/b/", "c/", "c/d/e/", ""}[rng.IntN(5)]+fmt.Sprint("f", i)] = strings.Repeat(fmt.Sprint("line ", i, "\n"), 8)
		}
		commit := func(files map[string]string, parents ...git.Hash) git.Hash {
			h, err := r.WriteCommit(git.CommitInput{Tree: randomTree(t, r, files), Parents: parents, Author: who, Committer: who, Message: "x"})
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		root := commit(base)
		in := git.MergeInput{Base: root, Ours: commit(mutate(rng, base), root), Theirs: commit(mutate(rng, base), root)}
		want, err := r.MergeTree(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []*git.Merger{fast, slow} {
			got, err := m.MergeTree(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			want := git.Merged{Tree: want.Tree, Conflicts: want.Conflicts}
			if len(want.Conflicts) > 0 {
				want.Tree = ""
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("round %d, spliced %v (-git +got):\n%s", round, m == fast, diff)
			}
			if !got.Tree.IsZero() {
				if _, err := stage.Files(got.Tree, ""); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			}
		}
		if round%3 == 0 {
			if err := stage.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := fast.Merges(); n.Spliced < rounds/6 || n.Session < rounds/6 || n.Single != 0 {
		t.Errorf("%+v: both ways are to be taken", n)
	}
	gittest.Git(t, r.Dir(), "fsck", "--strict")
}

func close2(t *testing.T, all ...*git.Merger) {
	t.Helper()
	for _, m := range all {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMergerOutlivesItsGit(t *testing.T) {
	t.Parallel()
	r, dir := hub(t)
	base := gittest.Commit(t, dir, "main", "base", map[string]string{"f": "1\n2\n3\n4\n5\n"})
	gittest.Git(t, dir, "update-ref", "refs/heads/side", base)
	ours := git.Hash(gittest.Commit(t, dir, "main", "ours", map[string]string{"f": "one\n2\n3\n4\n5\n"}))
	theirs := git.Hash(gittest.Commit(t, dir, "side", "theirs", map[string]string{"f": "1\n2\n3\n4\nfive\n"}))
	m := r.Stage().Merger()
	defer close2(t, m)
	in := git.MergeInput{Base: git.Hash(base), Ours: ours, Theirs: theirs}
	want, err := m.MergeTree(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := m.MergeTree(ended, in); err == nil {
			t.Error("a merge that was called off was made")
		}
		got, err := m.MergeTree(t.Context(), in)
		if err != nil || got.Tree != want.Tree {
			t.Errorf("%+v, %v", got, err)
		}
	}
	missing := git.Hash(strings.Repeat("12", 20))
	if _, err := m.MergeTree(t.Context(), git.MergeInput{Ours: ours, Theirs: missing}); err == nil {
		t.Error("a missing commit was merged")
	}
	if got, err := m.MergeTree(t.Context(), in); err != nil || got.Tree != want.Tree {
		t.Errorf("%+v, %v", got, err)
	}
}
