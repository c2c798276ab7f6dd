package queue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

// raw writes a tree as it is said, which no client of git would let through.
func (w *world) raw(lines ...string) string {
	w.Helper()
	var tree strings.Builder
	for _, line := range lines {
		meta, name, _ := strings.Cut(line, "\t")
		fields := strings.Fields(meta)
		tree.WriteString(strings.TrimPrefix(fields[0], "0") + " " + name + "\x00")
		for i := 0; i < 40; i += 2 {
			var b byte
			for _, c := range []byte(fields[1][i : i+2]) {
				b = b<<4 | (c&0xf + c>>6*9)
			}
			tree.WriteByte(b)
		}
	}
	file := filepath.Join(w.TempDir(), "tree")
	if err := os.WriteFile(file, []byte(tree.String()), 0o600); err != nil {
		w.Fatal(err)
	}
	return w.git("hash-object", "-t", "tree", "-w", "--literally", file)
}

// Trees that no checkout may see: each is refused alone, and main stays clean.
func TestHostileTreesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "a\n"})
	base, blob := w.git("rev-parse", "main"), w.git("rev-parse", "main:a.txt")
	link, err := w.hub.WriteBlob([]byte("../../etc/passwd"))
	if err != nil {
		t.Fatal(err)
	}
	config := w.raw("100644 " + blob + "\tconfig")
	keep := "100644 " + blob + "\ta.txt"
	for name, tree := range map[string]string{
		"1-dot-git":   w.raw("40000 "+config+"\t.git", keep),
		"2-dot-GIT":   w.raw("40000 "+config+"\t.GIT", keep),
		"3-dot-dot":   w.raw("100644 "+blob+"\t..", keep),
		"4-dot":       w.raw("100644 "+blob+"\t.", keep),
		"5-deep":      w.raw(keep, "40000 "+w.raw("40000 "+config+"\t..")+"\tb"),
		"6-escape":    w.raw(keep, "120000 "+string(link)+"\tlink"),
		"7-short":     w.raw(keep, "40000 "+config+"\tgit~1"),
		"8-case":      w.raw("100644 "+blob+"\tA.txt", keep),
		"9-submodule": w.raw(keep, "160000 "+base+"\tlib"),
	} {
		w.git("update-ref", "refs/heads/queue/"+name, w.git("commit-tree", tree, "-p", base, "-m", name))
	}
	w.branch("x-honest", base, "honest", map[string]string{"b.txt": "b\n"})
	for _, d := range w.land() {
		name, _, _ := cutEntry(d.Entry)
		switch {
		case name == "x-honest":
			if d.State != "landed" {
				t.Errorf("%s: %+v", name, d)
			}
		case d.State != "ejected" || *d.Reason != "gate" || *d.Detail == "":
			t.Errorf("%s: %s %v", name, d.State, d.Reason)
		}
	}
	w.wantNoQueue()
	clone := filepath.Join(t.TempDir(), "clone")
	w.git("-c", "transfer.fsckObjects=true", "clone", "-q", "--bare", "--no-local", "--single-branch", "-b", "main", w.dir, clone)
	gittest.Git(t, clone, "fsck", "--strict")
	if got := w.git("ls-tree", "-r", "--name-only", "main"); got != "a.txt\nb.txt" {
		t.Errorf("main holds %q", got)
	}
}

func TestHeadsThatAreNoCommitsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.git("tag", "-a", "t", "-m", "t", "main")
	for name, id := range map[string]string{
		"gone": strings.Repeat("12", 20), "tag": w.git("rev-parse", "t"), "tree": w.git("rev-parse", "main^{tree}"), "unrelated": w.git("commit-tree", "main^{tree}", "-m", "unrelated"),
	} {
		path := filepath.Join(w.dir, "refs", "heads", "queue", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(id+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := brief(w.land())
	want := map[string]bool{"gone ejected invalid": true, "tag ejected invalid": true, "tree ejected invalid": true, "unrelated ejected invalid": true}
	for _, line := range got {
		delete(want, line)
	}
	if len(want) > 0 {
		t.Errorf("got %v, missing %v", got, want)
	}
	w.wantNoQueue()
	if report, err := Audit(w.Context(), w.hub, "", git.Hash(gittest.Git(t, w.dir, "rev-parse", "main"))); err != nil || len(report.Mismatches) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
}
