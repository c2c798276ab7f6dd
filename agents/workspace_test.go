package agents

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/proc"
)

func (w *world) workspace(all *Workspaces, agent string) *Workspace {
	w.Helper()
	ws, err := all.Open(w.Context(), WorkspaceInput{Run: "run", Agent: agent, Task: "run/a", Claim: "4f1c2ab97d10", Base: w.main()})
	if err != nil {
		w.Fatal(err)
	}
	return ws
}

// die ends a workspace as kill -9 of its process would: the lock goes, the
// register stays and names a process that is no more.
func (w *world) die(ws *Workspace) {
	w.Helper()
	reg := ws.owner
	reg.Identity = proc.Identity{Pid: 1<<22 + 1, Start: "never", Host: w.self.Host}
	if err := errors.Join(writeOwner(ws.base(), reg), ws.unlock()); err != nil {
		w.Fatal(err)
	}
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestA01NothingIsLost: dirty and untracked files, unpushed and detached commits
// of a killed worker are rescued before its workspace goes.
func TestA01NothingIsLost(t *testing.T) {
	for name, one := range map[string]struct {
		make func(dir string)
		want map[string]string // file → text in one of the rescued commits
	}{
		"a dirty and untracked": {func(dir string) { write(t, dir, "README.md", "dirty\n"); write(t, dir, "new.txt", "new\n") }, map[string]string{"README.md": "dirty", "new.txt": "new"}},
		"b unpushed": {func(dir string) {
			write(t, dir, "c.txt", "committed\n")
			gittest.Git(t, dir, "add", ".")
			gittest.Git(t, dir, "commit", "-qm", "unpushed")
		}, map[string]string{"c.txt": "committed"}},
		"c detached": {func(dir string) {
			gittest.Git(t, dir, "checkout", "-q", "--detach")
			write(t, dir, "d.txt", "detached\n")
			gittest.Git(t, dir, "add", ".")
			gittest.Git(t, dir, "commit", "-qm", "detached")
		}, map[string]string{"d.txt": "detached"}},
		"d another branch, a stash and a lock": {func(dir string) {
			gittest.Git(t, dir, "checkout", "-qb", "other")
			write(t, dir, "e.txt", "other\n")
			gittest.Git(t, dir, "add", ".")
			gittest.Git(t, dir, "commit", "-qm", "other")
			gittest.Git(t, dir, "checkout", "-q", "work")
			write(t, dir, "README.md", "stashed\n")
			gittest.Git(t, dir, "stash")
			write(t, dir, ".git/index.lock", "")
		}, map[string]string{"e.txt": "other", "README.md": "stashed"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			all := w.workspaces()
			ws := w.workspace(all, "worker-1")
			one.make(ws.Dir())
			w.die(ws)
			refs, err := all.Sweep(t.Context())
			if err != nil || len(refs) == 0 {
				t.Fatalf("rescued %v, %v", refs, err)
			}
			for file, text := range one.want {
				found := false
				for _, ref := range refs {
					names := w.git("ls-tree", "-r", "--name-only", string(ref))
					found = found || strings.Contains("\n"+names+"\n", "\n"+file+"\n") && w.show(string(ref), file) == text
				}
				if !found {
					t.Errorf("%s is not in %v", file, refs)
				}
			}
			listed, err := ListRescued(w.hub.Repo, "")
			if err != nil || len(listed) != len(refs) || listed[0].Task != "run/a" {
				t.Errorf("listed %+v, %v", listed, err)
			}
			w.noWorkspaceLeft()
			w.git("fsck", "--connectivity-only")
		})
	}
}

// TestRescueTwice: a crash between rescue and removal saves nothing twice.
func TestRescueTwice(t *testing.T) {
	w := newWorld(t, nil)
	ws := w.workspace(w.workspaces(), "worker-1")
	write(t, ws.Dir(), "new.txt", "new\n")
	first, err := ws.Rescue(t.Context())
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	again, err := ws.Discard(t.Context())
	if err != nil || len(again) != 0 {
		t.Errorf("rescued again: %v, %v", again, err)
	}
	w.noWorkspaceLeft()
}

// TestA02LiveWorkspaceStays: neither the lock nor a live register lets a sweep in;
// a number that another process has by now does.
func TestA02LiveWorkspaceStays(t *testing.T) {
	w := newWorld(t, nil)
	all := w.workspaces()
	ws := w.workspace(all, "worker-1")
	write(t, ws.Dir(), "new.txt", "new\n")
	if refs, err := all.Sweep(t.Context()); err != nil || len(refs) != 0 || !exists(ws.Dir()) {
		t.Fatalf("a locked workspace was swept: %v, %v", refs, err)
	}
	if _, err := all.Open(t.Context(), WorkspaceInput{Run: "run", Agent: "worker-1", Base: w.main()}); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	other := *all
	other.Self.Start = "another process"
	if err := ws.unlock(); err != nil { // the lock is gone, yet the register names a live process
		t.Fatal(err)
	}
	if _, err := other.Sweep(t.Context()); err != nil || !exists(ws.Dir()) {
		t.Fatalf("a live workspace was swept: %v", err)
	}
	reg := ws.owner
	reg.Start = "earlier" // the number was given to another process
	if err := writeOwner(ws.base(), reg); err != nil {
		t.Fatal(err)
	}
	if refs, err := other.Sweep(t.Context()); err != nil || len(refs) != 1 || exists(ws.Dir()) {
		t.Errorf("swept %v, %v", refs, err)
	}
}

// TestA03EmptiedWorkspace: without its git directory a commit of the agent fails at
// once, nothing walks up into a repository around it, and its files are rescued.
func TestA03EmptiedWorkspace(t *testing.T) {
	w := newWorld(t, nil)
	all := w.workspaces()
	around := filepath.Dir(filepath.Dir(filepath.Dir(all.State)))
	gittest.Git(t, around, "init", "-q")
	before := w.main()
	ws := w.workspace(all, "worker-1")
	write(t, ws.Dir(), "new.txt", "new\n")
	if err := os.RemoveAll(filepath.Join(ws.Dir(), ".git")); err != nil {
		t.Fatal(err)
	}
	box, err := openToolbox(toolboxInput{Workspace: ws, Env: CommandEnv(w.host, t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close() // only read
	said := w.use(box, "shell", `{"command":"git add -A && git commit -m stray"}`)
	if !strings.Contains(said, "not a git repository") {
		t.Errorf("a commit without a repository: %s", said)
	}
	w.die(ws)
	refs, err := all.Sweep(t.Context())
	if err != nil || len(refs) != 1 || w.show(string(refs[0]), "new.txt") != "new" {
		t.Errorf("rescued %v, %v", refs, err)
	}
	if _, err := os.Stat(filepath.Join(around, ".git", "index")); err == nil {
		t.Error("the repository around was written to")
	}
	if w.main() != before || exists(ws.Dir()) {
		t.Error("main moved, or the workspace is still there")
	}
	w.noWorkspaceLeft()
}

func TestHalfMadeWorkspaceIsRemade(t *testing.T) {
	w := newWorld(t, nil)
	all := w.workspaces()
	for name, spoil := range map[string]func(base string) error{
		"only the register": func(base string) error { return os.RemoveAll(base) },
		"no checkout": func(base string) error {
			return os.RemoveAll(filepath.Join(treeDir(base)+".git", "refs", "heads", "work"))
		},
		"no repository": func(base string) error {
			return errors.Join(os.RemoveAll(treeDir(base)+".git"), os.Remove(filepath.Join(treeDir(base), "README.md")), os.RemoveAll(filepath.Join(treeDir(base), "tasks")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ws := w.workspace(all, "worker-1")
			if err := spoil(ws.base()); err != nil {
				t.Fatal(err)
			}
			w.die(ws)
			again := w.workspace(all, "worker-1")
			if got, err := again.Head(t.Context()); err != nil || got != w.main() {
				t.Errorf("head %s, %v", got, err)
			}
			if err := again.Remove(); err != nil {
				t.Error(err)
			}
			if listed, err := ListRescued(w.hub.Repo, ""); err != nil || len(listed) != 0 {
				t.Errorf("rescued %v, %v", listed, err)
			}
			w.noWorkspaceLeft()
		})
	}
}

func TestRemoveReadOnlyFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	if err := os.MkdirAll(filepath.Join(dir, "y"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "y/z", "")
	if err := os.Chmod(filepath.Join(dir, "y"), 0o500); err != nil {
		t.Fatal(err)
	}
	if err := removeAll(dir); err != nil || exists(dir) {
		t.Error(err)
	}
}

func TestRescueRefsCount(t *testing.T) {
	w := newWorld(t, nil)
	all := w.workspaces()
	for n := range 11 {
		ws := w.workspace(all, "worker-1")
		write(t, ws.Dir(), "new.txt", strings.Repeat("x", n+1))
		refs, err := ws.Discard(t.Context())
		want, refErr := git.RescueRef("run/a", n+1, git.Hash(w.git("rev-parse", string(refs[0]))))
		if err != nil || refErr != nil || len(refs) != 1 || refs[0] != want {
			t.Fatalf("rescued %v, %v, %v", refs, err, refErr)
		}
	}
	listed, err := ListRescued(w.hub.Repo, "run/a")
	if err != nil || len(listed) != 11 || listed[10].number() != 11 {
		t.Errorf("listed %+v, %v", listed, err)
	}
}
