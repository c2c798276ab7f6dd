package sample

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// TestModulePassesItsChecks writes the sample with every good job done and runs
// the sample's own checks on it; with a bad one they must fail.
func TestModulePassesItsChecks(t *testing.T) {
	dir := t.TempDir()
	files := Module()
	for _, j := range append(first(40), second()...) {
		maps.Copy(files, j.files)
		if j.catalog != "" {
			files["catalog/catalog.go"] = strings.Replace(files["catalog/catalog.go"], "\t\t// end", "\t\t\""+j.catalog+"\",\n\t\t// end", 1)
		}
		if j.broken {
			continue
		}
		for _, c := range append(j.commits, j.edits...) {
			apply(t, files, c)
		}
	}
	write(t, dir, files)
	if out, ok := check(t, dir); !ok {
		t.Fatalf("the sample fails:\n%s", out)
	}
	for _, c := range median().commits {
		apply(t, files, c)
	}
	write(t, dir, files)
	if out, ok := check(t, dir); ok {
		t.Fatalf("the bad job passes:\n%s", out)
	}
	apply(t, files, mended())
	write(t, dir, files)
	if out, ok := check(t, dir); !ok {
		t.Fatalf("the mended job fails:\n%s", out)
	}
}

func apply(t *testing.T, files map[string]string, c commit) {
	t.Helper()
	if strings.Count(files[c.path], c.old) != 1 {
		t.Fatalf("%s: the text to replace stands %d times", c.path, strings.Count(files[c.path], c.old))
	}
	files[c.path] = strings.Replace(files[c.path], c.old, c.new, 1)
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func check(t *testing.T, dir string) (string, bool) {
	t.Helper()
	var out bytes.Buffer
	host := gittest.Host(t)
	result, err := proc.Run(t.Context(), proc.Command{
		Name: "sh", Args: []string{"-c", "test -z \"$(gofmt -l .)\" && go vet ./... && go test ./..."}, Dir: dir,
		Env: host.Only("PATH", "HOME", "GOCACHE", "GOMODCACHE", "GOPATH"), Stdout: &out, Stderr: &out,
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), result.OK()
}
