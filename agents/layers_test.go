package agents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// layered is a world whose workspaces lie over a checkout, where that can be had.
func layered(t testing.TB, w *world) *Workspaces {
	t.Helper()
	all := w.workspaces()
	var err error
	if all.Layers, err = OpenLayers(t.Context(), w.hub.Repo, all.State, proc.ByOverlay); err != nil {
		t.Skipf("workspaces cannot be layers here: %v", err)
	}
	t.Cleanup(func() { // nothing may stay mounted in a directory that goes
		if err := proc.UnmountBelow(all.State); err != nil {
			t.Error(err)
		}
	})
	return all
}

func TestALayeredWorkspaceIsAWorkspace(t *testing.T) {
	w := newWorld(t, map[string]string{"dir/a": "a\n", "gone": "x\n"})
	all := layered(t, w)
	first := w.workspace(all, "worker-1")
	second := w.workspace(all, "worker-2")
	if !proc.Mounted(first.base()) || first.owner.Lower != w.main() {
		t.Fatalf("%s lies over %q", first.Dir(), first.owner.Lower)
	}
	if got := gittest.Git(t, first.Dir(), "status", "--porcelain"); got != "" {
		t.Errorf("a new workspace is not clean: %s", got)
	}
	if who := gittest.Git(t, first.Dir(), "config", "user.name"); who != "worker-1" {
		t.Errorf("its author is %s", who)
	}
	// Its index is newer than its files by the second, so that the first status reads none.
	index, err := os.Stat(filepath.Join(first.Dir(), ".git", "index"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "dir/a"} {
		if file, err := os.Stat(filepath.Join(first.Dir(), name)); err != nil || file.ModTime().Unix() >= index.ModTime().Unix() {
			t.Errorf("%s is of %v, the index of %v, %v", name, file.ModTime(), index.ModTime(), err)
		}
	}
	// What one does the others do not see.
	write(t, first.Dir(), "dir/a", "changed\n")
	gittest.Git(t, first.Dir(), "mv", "dir", "moved")
	gittest.Git(t, first.Dir(), "rm", "-q", "gone")
	gittest.Git(t, first.Dir(), "commit", "-qam", "work")
	tree, err := first.Snapshot(t.Context())
	if err != nil || w.treeNames(first, tree) != "README.md moved/a tasks/run/GOAL.md" {
		t.Errorf("%s, %v", w.treeNames(first, tree), err)
	}
	if head, err := first.Head(t.Context()); err != nil || head == w.main() {
		t.Errorf("head %s, %v", head, err)
	}
	if data, err := os.ReadFile(filepath.Join(second.Dir(), "dir", "a")); err != nil || string(data) != "a\n" {
		t.Errorf("the other workspace has %q, %v", data, err)
	}
	// Main moves on: a workspace there is laid over the old checkout and brought forward.
	w.commit("next", map[string]string{"dir/a": "next\n", "new": "n\n"})
	third := w.workspace(all, "worker-3")
	if head, err := third.Head(t.Context()); err != nil || head != w.main() || third.owner.Lower == w.main() {
		t.Errorf("head %s over %s, %v", head, third.owner.Lower, err)
	}
	if got := gittest.Git(t, third.Dir(), "status", "--porcelain"); got != "" {
		t.Errorf("a workspace that was brought forward is not clean: %s", got)
	}
	if err := first.Rebase(t.Context(), w.main()); err != nil {
		t.Error(err)
	}
	for _, ws := range []*Workspace{first, second, third} {
		if err := ws.Remove(); err != nil {
			t.Error(err)
		}
	}
	w.onlyLayersLeft(all)
}

func (w *world) treeNames(ws *Workspace, tree git.Hash) string {
	w.Helper()
	files, err := ws.Repo().Files(tree, "")
	if err != nil {
		w.Fatal(err)
	}
	return strings.Join(files, " ")
}

// onlyLayersLeft fails where a workspace left files or a mount.
func (w *world) onlyLayersLeft(all *Workspaces) {
	w.Helper()
	left, err := filepath.Glob(filepath.Join(all.State, "work", "[^.]*", "*"))
	if err != nil {
		w.Fatal(err)
	}
	for _, path := range left {
		if !strings.HasSuffix(path, ".lock") {
			w.Errorf("left behind: %s", path)
		}
		if proc.Mounted(strings.TrimSuffix(path, ".lock")) {
			w.Errorf("still mounted: %s", path)
		}
	}
}

// A01 for layers: what a killed worker had is saved, whether its mount is still
// there, or went with the machine, or even the checkout below it is gone.
func TestA01LayeredNothingIsLost(t *testing.T) {
	for name, fate := range map[string]func(t *testing.T, all *Workspaces, ws *Workspace){
		"killed": func(*testing.T, *Workspaces, *Workspace) {},
		"restarted": func(t *testing.T, _ *Workspaces, ws *Workspace) {
			t.Helper()
			if err := proc.UnmountBelow(ws.base()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			all := layered(t, w)
			ws := w.workspace(all, "worker-1")
			write(t, ws.Dir(), "README.md", "dirty\n")
			write(t, ws.Dir(), "new.txt", "new\n")
			w.die(ws)
			fate(t, all, ws)
			refs, err := all.Sweep(t.Context())
			if err != nil || len(refs) != 1 || w.show(string(refs[0]), "new.txt") != "new" || w.show(string(refs[0]), "README.md") != "dirty" {
				t.Errorf("rescued %v, %v", refs, err)
			}
			w.onlyLayersLeft(all)
		})
	}
	w := newWorld(t, nil)
	all := layered(t, w)
	ws := w.workspace(all, "worker-1")
	write(t, ws.Dir(), "new.txt", "new\n")
	w.die(ws)
	if err := errors.Join(proc.UnmountBelow(ws.base()), os.RemoveAll(filepath.Join(all.Layers.dir, string(ws.owner.Lower)))); err != nil {
		t.Fatal(err)
	}
	if _, err := all.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(ws.base() + ".lost-1/tree/new.txt"); err != nil || string(data) != "new\n" {
		t.Errorf("set aside: %q, %v", data, err)
	}
}

// A process was killed while it made or removed a workspace: what is left of the layer
// stops no sweep, and goes.
func TestA01HalfALayerStopsNoSweep(t *testing.T) {
	for _, gone := range [][]string{{".kernel"}, {".upper", ".kernel"}, {".upper"}} {
		t.Run(strings.Join(gone, " and "), func(t *testing.T) {
			w := newWorld(t, nil)
			all := layered(t, w)
			ws := w.workspace(all, "worker-1")
			w.die(ws)
			err := proc.UnmountBelow(ws.base())
			for _, dir := range gone {
				err = errors.Join(err, os.RemoveAll(ws.base()+dir))
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := all.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
			w.onlyLayersLeft(all)
		})
	}
}

// A04: 64 workspaces at once, of either kind, none fails.
func TestA04ManyAtOnce(t *testing.T) {
	for _, kind := range []string{"layers", "clones"} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, map[string]string{"a/b/c": "x\n"})
			all := w.workspaces()
			if kind == "layers" {
				all = layered(t, w)
			}
			var group sync.WaitGroup
			made := make([]*Workspace, 64)
			for i := range made {
				group.Go(func() {
					ws, err := all.Open(t.Context(), WorkspaceInput{Run: "run", Agent: fmt.Sprintf("worker-%d", i), Task: "run/a", Base: w.main()})
					if err != nil {
						t.Error(err)
						return
					}
					made[i] = ws
				})
			}
			group.Wait()
			for i, ws := range made {
				if ws == nil {
					continue
				}
				if head, err := ws.Head(t.Context()); err != nil || head != w.main() {
					t.Errorf("worker-%d: %s, %v", i, head, err)
				}
				if err := ws.Remove(); err != nil {
					t.Error(err)
				}
			}
			w.onlyLayersLeft(all)
		})
	}
}

// A layer goes when main has moved far from it and nobody lies over it.
func TestLayersFollowMain(t *testing.T) {
	w := newWorld(t, nil)
	all := layered(t, w)
	kept := w.workspace(all, "kept")
	begin := w.main()
	for i := range maxDrift + 2 {
		w.commit("next", map[string]string{"n": fmt.Sprint(i)})
		if err := w.workspace(all, "worker-1").Remove(); err != nil {
			t.Fatal(err)
		}
	}
	layers := func() []string {
		list, err := filepath.Glob(filepath.Join(all.Layers.dir, "*", "ready"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if !exists(filepath.Join(all.Layers.dir, string(begin))) || len(layers()) != 2 {
		t.Errorf("with a workspace over the first layer there are %v", layers())
	}
	if err := kept.Remove(); err != nil {
		t.Fatal(err)
	}
	for i := range maxDrift + 2 {
		w.commit("next", map[string]string{"m": fmt.Sprint(i)})
		if err := w.workspace(all, "worker-1").Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if exists(filepath.Join(all.Layers.dir, string(begin))) || len(layers()) != 1 {
		t.Errorf("afterwards there are %v", layers())
	}
}

// A07: below the low-water mark nobody is admitted, before the disk is full; what
// ends makes room, and no write of a worker fails meanwhile.
func TestA07LowDiskStopsAdmission(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: only the owner of the machine can mount a small disk")
	}
	w := newWorld(t, nil)
	small := t.TempDir()
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=48m"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := proc.UnmountBelow(small); err != nil {
			t.Error(err)
		}
	})
	all := w.workspaces()
	all.State, all.MinDisk = small, 16<<20
	var open []*Workspace
	refused := 0
	for i := range 60 {
		ws, err := all.Open(t.Context(), WorkspaceInput{Run: "run", Agent: fmt.Sprintf("worker-%d", i), Task: "run/a", Base: w.main()})
		switch {
		case errors.Is(err, ErrDisk):
			refused++
			if len(open) == 0 {
				t.Fatal("nobody works, and nobody is admitted")
			}
			if err := open[0].Remove(); err != nil {
				t.Fatal(err)
			}
			open = open[1:]
			continue
		case err != nil:
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(ws.Dir(), "output"), make([]byte, 5<<20), 0o644); err != nil {
			t.Fatalf("a worker met a full disk: %v", err)
		}
		open = append(open, ws)
	}
	if refused < 10 {
		t.Errorf("%d were refused", refused)
	}
	for _, ws := range open {
		if err := ws.Remove(); err != nil {
			t.Error(err)
		}
	}
}

// What a new workspace costs: so many files and directories, no process, and nothing as
// large as the index. On a slow disk each of them is felt.
func TestANewLayeredWorkspaceIsAFewFiles(t *testing.T) {
	w := newWorld(t, map[string]string{"dir/a": "a\n"})
	all := layered(t, w)
	if err := w.workspace(all, "worker-1").Remove(); err != nil { // the layer is made
		t.Fatal(err)
	}
	told := filepath.Join(t.TempDir(), "told") // of each git that is started
	write(t, filepath.Dir(told), "git", fmt.Sprintf("#!/bin/sh\necho \"$*\" >>'%s'\nPATH='%s' exec git \"$@\"\n", told, w.host.Get("PATH")))
	if err := errors.Join(os.Chmod(filepath.Join(filepath.Dir(told), "git"), 0o755), os.Remove(filepath.Join(all.State, "work", "run", "worker-1.lock"))); err != nil {
		t.Fatal(err)
	}
	all.Repo = w.open(w.host.With("PATH=" + filepath.Dir(told) + ":" + w.host.Get("PATH"))).Repo
	if _, err := all.Repo.RevParse(t.Context(), "main"); err != nil || !exists(told) {
		t.Fatalf("a git that is started is not told of: %v", err)
	}
	if err := os.Remove(told); err != nil {
		t.Fatal(err)
	}
	ws := w.workspace(all, "worker-1")
	if ran, err := os.ReadFile(told); err == nil {
		t.Errorf("it started git %s", ran)
	}
	var made []string
	for _, top := range []string{".lock", ".owner", ".upper", ".kernel"} {
		err := filepath.WalkDir(ws.base()+top, func(path string, d os.DirEntry, err error) error {
			if err == nil {
				made = append(made, strings.TrimPrefix(path, ws.base()))
			}
			if top == ".kernel" {
				return filepath.SkipAll // what it makes there is its own
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if got, want := strings.Join(made, " "), ".lock .owner .upper .upper/tree .upper/tree/.git .upper/tree/.git/config .kernel"; got != want {
		t.Errorf("it made %s, want %s", got, want)
	}
	all.Repo = w.hub.Repo
	if err := ws.Remove(); err != nil {
		t.Error(err)
	}
}

// The first git status of a new workspace reads no file: it knows them by size and time.
// What would be read is found changed here, as the files of the layer were, unseen.
func TestTheFirstStatusReadsNoFile(t *testing.T) {
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("dir/%d", i)] = "as it was\n"
	}
	w := newWorld(t, files)
	all := layered(t, w)
	first := w.workspace(all, "worker-1") // makes the layer
	lower := treeDir(all.Layers.shown(first.owner.Lower))
	if err := first.Remove(); err != nil {
		t.Fatal(err)
	}
	for name := range files {
		path := filepath.Join(lower, name)
		info, err := os.Stat(path)
		if err == nil {
			write(t, lower, name, "as it is.\n")
			err = os.Chtimes(path, info.ModTime(), info.ModTime())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ws := w.workspace(all, "worker-1")
	// The time of the inode is what tells of the change: it is left aside.
	status := func() []string {
		return strings.Fields(gittest.Git(t, ws.Dir(), "-c", "core.trustctime=false", "status", "--porcelain"))
	}
	if read := status(); len(read) != 0 {
		t.Errorf("it read %d words of files: %.100q", len(read), read)
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(ws.Dir(), "dir", "7"), now, now); err != nil {
		t.Fatal(err)
	}
	if read := status(); strings.Join(read, " ") != "M dir/7" {
		t.Errorf("of a file that is to be read it found %q: this test proves nothing", read)
	}
	if err := ws.Remove(); err != nil {
		t.Error(err)
	}
}
