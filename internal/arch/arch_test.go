package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestTree judges this project.
func TestTree(t *testing.T) {
	offences, err := Check(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range offences {
		t.Error(o)
	}
}

// TestOffences judges small trees, each with all the offences that
// stand in it: a rule that never fires holds nothing.
func TestOffences(t *testing.T) {
	stories, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(stories) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, story := range stories {
		t.Run(strings.TrimSuffix(filepath.Base(story), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(story)
			if err != nil {
				t.Fatal(err)
			}
			root, want := fstest.MapFS{"go.mod": {Data: []byte("module example\n")}}, ""
			for _, f := range archive.Files {
				if f.Name == "want" {
					want = string(f.Data)
					continue
				}
				root[f.Name] = &fstest.MapFile{Data: f.Data}
			}
			offences, err := Check(root)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, o := range offences {
				got.WriteString(o.String() + "\n")
			}
			if diff := cmp.Diff(want, got.String()); diff != "" {
				t.Errorf("offences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckNeedsAModule(t *testing.T) {
	if _, err := Check(fstest.MapFS{"a.go": {Data: []byte("package a\n")}}); err == nil {
		t.Error("Check of a tree without go.mod succeeded")
	}
	if _, err := Check(fstest.MapFS{"go.mod": {Data: []byte("go 1.26\n")}}); err == nil {
		t.Error("Check of a tree whose go.mod names no module succeeded")
	}
}

// TestLength holds the limits themselves.
func TestLength(t *testing.T) {
	source := func(lines int) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("// Package proc starts processes and nothing else.\npackage proc\n\nfunc f() {\n" + strings.Repeat("\n", lines-2) + "}\n")}
	}
	for lines, want := range map[int]int{79: 0, 80: 1, 446: 1, 447: 2} {
		offences, err := Check(fstest.MapFS{"go.mod": {Data: []byte("module m\n")}, "internal/proc/a.go": source(lines)})
		if err != nil {
			t.Fatal(err)
		}
		if len(offences) != want {
			t.Errorf("a function of %d lines in a file of %d: %v, want %d offences", lines, lines+3, offences, want)
		}
	}
}
