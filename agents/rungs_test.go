package agents

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// disk mounts a new file system of a kind that lies in a file, and gives where. Where
// the machine cannot, the test is skipped, and says why.
func disk(t *testing.T, w *world, kind string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: only the owner of the machine can mount a file")
	}
	image, at := filepath.Join(t.TempDir(), "image"), t.TempDir()
	f, err := os.Create(image)
	if err == nil {
		err = errors.Join(f.Truncate(512<<20), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{{"mkfs." + kind, "-q", image}, {"mount", "-o", "loop", image, at}} {
		out := proc.NewCapture(1<<10, 0, nil)
		result, err := proc.Run(t.Context(), proc.Command{Name: argv[0], Args: argv[1:], Env: append(w.host.Only(), "PATH=/usr/sbin:/sbin:/usr/bin:/bin"), Stdout: out, Stderr: out, Timeout: time.Minute})
		if err != nil || !result.OK() {
			t.Skipf("no %s in a file here: %s: %v %s %s", kind, argv[0], err, result, out)
		}
	}
	t.Cleanup(func() {
		if err := proc.UnmountBelow(at); err != nil {
			t.Error(err)
		}
	})
	return at
}

// The contract of every rung of the ladder: a workspace is clean when it is made, an
// edit in it is seen there alone, its commit reaches the hub, what is not landed is
// rescued before anything is removed, and afterwards nothing is left.
func TestEveryRungKeepsTheContract(t *testing.T) {
	for name, rung := range map[string]struct {
		kind proc.CopyKind // "": a clone
		disk string        // "": where temporary directories are
	}{
		"clone": {}, "overlay": {kind: proc.ByOverlay}, "snapshot": {proc.BySnapshot, "btrfs"},
		"reflink on btrfs": {proc.ByReflink, "btrfs"}, "reflink on xfs": {proc.ByReflink, "xfs"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"dir/a": "a\n", "dir/b": "b\n", "run.sh": "true\n"})
			all := w.workspaces()
			if rung.disk != "" {
				all.State = disk(t, w, rung.disk)
			}
			t.Cleanup(func() {
				if err := proc.UnmountBelow(all.State); err != nil {
					t.Error(err)
				}
			})
			if rung.kind != "" {
				var err error
				if all.Layers, err = OpenLayers(t.Context(), w.hub.Repo, all.State, rung.kind); err != nil {
					t.Skipf("NOT RUN: no workspace can be made by %s here: %v", name, err)
				}
			}
			keepsTheContract(t, w, all)
		})
	}
}

func keepsTheContract(t *testing.T, w *world, all *Workspaces) {
	t.Helper()
	base := w.main()
	mine, other := w.workspace(all, "worker-1"), w.workspace(all, "worker-2")
	status := func(ws *Workspace) string { return gittest.Git(t, ws.Dir(), "status", "--porcelain") }
	if got := status(mine) + status(other); got != "" {
		t.Fatalf("new workspaces are not clean: %q", got)
	}
	write(t, mine.Dir(), "dir/a", "changed\n")
	if got := status(mine); got != " M dir/a" || status(other) != "" {
		t.Errorf("after an edit: %q, and of another one %q", got, status(other))
	}
	gittest.Git(t, mine.Dir(), "commit", "-qam", "work")
	head, err := mine.Head(t.Context())
	if err != nil || head == base {
		t.Fatalf("head %s, %v", head, err)
	}
	write(t, other.Dir(), "dir/new", "unlanded\n")
	// What was not landed is in the hub before the files go.
	saved, err := other.Discard(t.Context())
	if err != nil || len(saved) != 1 || w.show(string(saved[0]), "dir/new") != "unlanded" {
		t.Errorf("saved %v, %v", saved, err)
	}
	if err := mine.Push(t.Context(), []git.RefUpdate{{Ref: "refs/heads/main", Old: base, New: head}}); err != nil {
		t.Fatal(err)
	}
	if got := w.show("main", "dir/a"); got != "changed" {
		t.Errorf("landed %q", got)
	}
	// One at the newer commit is brought there from the older layer.
	next := w.workspace(all, "worker-3")
	if data, err := os.ReadFile(filepath.Join(next.Dir(), "dir", "a")); err != nil || string(data) != "changed\n" || status(next) != "" {
		t.Errorf("at the newer commit: %q, %v, %q", data, err, status(next))
	}
	for _, ws := range []*Workspace{mine, next} {
		if saved, err := ws.Discard(t.Context()); err != nil || len(saved) != 0 {
			t.Errorf("of what has landed %v was saved, %v", saved, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(all.State, "work", "run", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range left {
		if !strings.HasSuffix(path, ".lock") {
			t.Errorf("left behind: %s", path)
		}
	}
}

// What workspaces have in common has several names and is never changed in place:
// what one does to its index, its branch and its borrowing, no other sees.
func TestWorkspacesShareFilesAndNotChanges(t *testing.T) {
	w := newWorld(t, map[string]string{"a": "a\n"})
	all := layered(t, w)
	mine, other := w.workspace(all, "worker-1"), w.workspace(all, "worker-2")
	names := []string{"HEAD", "config", "index", "refs/heads/work", "objects/info/alternates"}
	read := func(dir string) string {
		var text strings.Builder
		for _, name := range names {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			text.Write(data)
		}
		return text.String()
	}
	layer := treeDir(all.Layers.shown(mine.owner.Lower)) + ".git"
	before := read(layer)
	write(t, mine.Dir(), "a", "b\n")
	gittest.Git(t, mine.Dir(), "commit", "-qam", "work")
	if _, err := mine.Head(t.Context()); err != nil { // borrows from within
		t.Fatal(err)
	}
	if _, err := mine.Snapshot(t.Context()); err != nil { // changes the index
		t.Fatal(err)
	}
	if err := mine.Rebase(t.Context(), w.commit("next", map[string]string{"c": "c\n"})); err != nil { // and the branch
		t.Fatal(err)
	}
	if read(mine.Dir()+".git") == before {
		t.Error("nothing was changed: this test proves nothing")
	}
	if read(layer) != before || read(other.Dir()+".git") != before {
		t.Error("a change of one workspace is seen by another")
	}
	for _, ws := range []*Workspace{mine, other} {
		if err := ws.Remove(); err != nil {
			t.Error(err)
		}
	}
}
