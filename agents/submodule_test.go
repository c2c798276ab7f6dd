package agents

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/git/nested"
	"greenward/internal/gittest"
)

// withSubmodule is a world whose main has a submodule, third/x, at child.
func withSubmodule(t *testing.T) (w *world, child string) {
	t.Helper()
	w = newWorld(t, map[string]string{".gitmodules": "[submodule \"x\"]\n\tpath = third/x\n\turl = https://example.invalid/x\n"})
	other := gittest.Bare(t)
	child = gittest.Commit(t, other, "main", "child", map[string]string{"x.txt": "x\n"})
	w.git("read-tree", "main")
	w.git("update-index", "--add", "--cacheinfo", "160000,"+child+",third/x")
	w.git("update-ref", "refs/heads/main", w.git("commit-tree", "-p", "main", "-m", "a submodule", w.git("write-tree")))
	return w, child
}

const inSubmodule = "git -C third/x init -q -b main && echo y >third/x/y.txt && git -C third/x add y.txt && git -C third/x -c user.name=a -c user.email=a@b commit -qm mine"

// TestA35SubmodulesAreReadOnly: a worker can neither move a submodule, to a commit
// that nobody else has, nor take it away; it is told so once, the planner sees it,
// and what was committed in the submodule is kept.
func TestA35SubmodulesAreReadOnly(t *testing.T) {
	for name, work := range map[string]string{
		"moved":   inSubmodule + "; git add third/x; git commit -qm moved; echo a >a.txt",
		"removed": "git rm -q --cached third/x; rm -rf third/x; echo a >a.txt",
	} {
		t.Run(name, func(t *testing.T) {
			w, child := withSubmodule(t)
			ending, told := w.handingOff(shell(work), nil)
			if len(told) != 1 || !strings.Contains(told[0], "read-only") || !strings.Contains(told[0], "third/x") {
				t.Errorf("told %q", told)
			}
			for commit := range strings.FieldsSeq(w.git("rev-list", "main", "--", "third/x")) {
				if got := w.git("ls-tree", commit, "third/x"); !strings.Contains(got, child) {
					t.Errorf("on main stood %q", got)
				}
			}
			if got := w.git("ls-tree", "main", "third/x"); ending.Outcome != Done || !strings.Contains(got, child) || w.show("main", "a.txt") != "a" {
				t.Errorf("%+v, third/x is %q", ending, got)
			}
			if h := w.handoff(ending.Landed); len(h.Flags) != 1 || !strings.Contains(h.Flags[0], `"third/x" is left as it was`) {
				t.Errorf("flags %q", h.Flags)
			}
			if name == "moved" && (len(ending.Rescued) != 1 || w.show(string(ending.Rescued[0]), "third/x/y.txt") != "y") {
				t.Errorf("rescued %v", ending.Rescued)
			}
			w.noWorkspaceLeft()
		})
	}
}

// TestA35CommitsInASubmoduleAreKept: what a killed worker had in a repository within
// its workspace is kept: files, commits and what was never committed; also where it
// has no commit, or keeps its own in the .git around it.
func TestA35CommitsInASubmoduleAreKept(t *testing.T) {
	w, _ := withSubmodule(t)
	ws := w.workspace(w.workspaces(), "worker-1")
	in := filepath.Join(ws.Dir(), "third", "x")
	if err := os.MkdirAll(filepath.Join(ws.Dir(), ".git", "modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, in, "init", "-q", "-b", "main", "--separate-git-dir", filepath.Join(ws.Dir(), ".git", "modules", "x"))
	write(t, in, "y.txt", "first\n")
	gittest.Git(t, in, "add", ".")
	gittest.Git(t, in, "commit", "-qm", "in the submodule")
	commit := gittest.Git(t, in, "rev-parse", "HEAD")
	write(t, in, "y.txt", "second\n")
	unborn := filepath.Join(ws.Dir(), "unborn")
	if err := os.Mkdir(unborn, 0o755); err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, unborn, "init", "-q")
	write(t, unborn, "z.txt", "never committed\n")
	if err := os.Symlink("/etc/hostname", filepath.Join(unborn, "out")); err != nil {
		t.Fatal(err)
	}
	w.die(ws)
	refs, err := w.workspaces().Sweep(t.Context())
	if err != nil || len(refs) != 1 {
		t.Fatal(refs, err)
	}
	kept := string(refs[0])
	if got := w.show(kept, "third/x/y.txt") + ", " + w.show(kept, "unborn/z.txt"); got != "second, never committed" {
		t.Errorf("files kept: %s", got)
	}
	if got := w.git("ls-tree", kept, "unborn/out"); !strings.HasPrefix(got, "120000 ") {
		t.Errorf("a link is kept as %s", got)
	}
	// The repository can be had again from what is kept.
	again := t.TempDir()
	w.git("--work-tree="+again, "checkout", kept, "--", nested.Renamed)
	if got := gittest.Git(t, again, "--git-dir="+filepath.Join(again, nested.Renamed, "modules", "x"), "show", commit+":y.txt"); got != "first" {
		t.Errorf("the commit holds %q", got)
	}
	w.git("fsck", "--strict")
	w.noWorkspaceLeft()
}

// TestA30NestedRepositoryBecomesFiles: a repository that a worker made is named, not
// landed as a bare number; without its .git its files are in the change.
func TestA30NestedRepositoryBecomesFiles(t *testing.T) {
	w := newWorld(t, nil)
	ending, told := w.handingOff(
		shell("git init -q sub && echo s >sub/s.txt && git -C sub add . && git -C sub -c user.name=a -c user.email=a@b commit -qm inner; echo a >a.txt"),
		sequence(shell("rm -rf sub/.git"), done("Work")),
	)
	if len(told) == 0 || !strings.Contains(told[0], `"sub" is a git repository of its own`) {
		t.Errorf("told %q", told)
	}
	if ending.Outcome != Done || w.show("main", "sub/s.txt") != "s" || w.show("main", "a.txt") != "a" {
		t.Errorf("%+v, main holds %s", ending, w.git("ls-tree", "-r", "--name-only", "main"))
	}
}
