package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"greenward/agents/tools"
	"greenward/internal/git"
	"greenward/internal/gittest"
)

// bench is a workspace in a real working copy.
type bench struct {
	dir, spool string
	tools      map[string]tools.Tool
}

// open checks files out and opens a workspace on them.
func open(t *testing.T, files map[string]string, change ...func(*tools.Env)) bench {
	t.Helper()
	host := gittest.Host(t)
	bare := gittest.Bare(t)
	if len(files) == 0 {
		files = map[string]string{"README.md": "hello\n"}
	}
	hash, err := git.ParseHash(gittest.Commit(t, bare, "main", "start", files))
	if err != nil {
		t.Fatal(err)
	}
	repo, err := git.Open(t.Context(), bare, host)
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := bench{dir: filepath.Join(base, "work place"), spool: filepath.Join(base, "spool"), tools: map[string]tools.Tool{}}
	tree, err := repo.Checkout(t.Context(), git.CheckoutInput{Dir: b.dir, Commit: hash, Branch: "task", Author: git.Identity{Name: "w", Email: "w@example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	env := tools.Env{Dir: b.dir, Spool: b.spool, Files: tree.Ls, Environ: host.Only("PATH", "HOME"), Timeout: 20 * time.Second}
	for _, f := range change {
		f(&env)
	}
	w, err := tools.Open(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	all, err := w.Tools()
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range all {
		b.tools[tool.Name] = tool
	}
	return b
}

type args map[string]any

// call runs a tool and returns its text; refused tells whether it refused.
func (b bench) call(t *testing.T, name string, a args) (text string, refused bool) {
	t.Helper()
	raw, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.tools[name].Run(t.Context(), raw)
	if err != nil {
		t.Fatalf("%s %s: %v", name, raw, err)
	}
	if !utf8.ValidString(r.Text) || strings.ContainsRune(r.Text, 0) {
		t.Errorf("%s: result is not plain text: %q", name, r.Text)
	}
	return r.Text, r.Failed
}

func (b bench) ok(t *testing.T, name string, a args) string {
	t.Helper()
	text, refused := b.call(t, name, a)
	if refused {
		t.Fatalf("%s %v was refused: %s", name, a, text)
	}
	return text
}

// refused fails unless the tool refuses and says all of words.
func (b bench) refused(t *testing.T, name string, a args, words ...string) {
	t.Helper()
	text, refused := b.call(t, name, a)
	if !refused || !strings.HasPrefix(text, "error: ") {
		t.Errorf("%s %v was not refused: %s", name, a, text)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s %v: got %q, want it to say %q", name, a, text, word)
		}
	}
}

func (b bench) put(t *testing.T, name, content string) {
	t.Helper()
	name = filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (b bench) is(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		t.Error(err)
	} else if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s: -want +got\n%s", name, diff)
	}
}

// The prose, the schema and the code agree on the arguments.
func TestToolsSayWhatTheyTake(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	for name, tool := range b.tools {
		var schema struct {
			Type                 string                    `json:"type"`
			Properties           map[string]map[string]any `json:"properties"`
			Required             []string                  `json:"required"`
			AdditionalProperties *bool                     `json:"additionalProperties"`
		}
		if err := json.Unmarshal(tool.Schema, &schema); err != nil || schema.Type != "object" || schema.AdditionalProperties == nil || len(tool.Description) < 80 {
			t.Errorf("%s: schema %+v, %v", name, schema, err)
		}
		text, refused := b.call(t, name, args{"zzz": 1})
		if !refused || !strings.Contains(text, `"zzz" is not an argument here; there are `) {
			t.Errorf("%s: an unknown argument got %q", name, text)
		}
		_, known, _ := strings.Cut(text, "there are ")
		for property := range schema.Properties {
			if !strings.Contains(", "+known+",", ", "+property+",") {
				t.Errorf("%s: %s is in the schema, but the tool knows %q", name, property, known)
			}
		}
		if got := len(strings.Split(known, ", ")); got != len(schema.Properties) {
			t.Errorf("%s: the tool knows %q, the schema %d", name, known, len(schema.Properties))
		}
		for _, required := range schema.Required {
			if !strings.Contains(text, `"`+required+`" is missing`) {
				t.Errorf("%s: %s is required, but got %q", name, required, text)
			}
		}
	}
}

func TestArgumentsAreCheckedByName(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.refused(t, "read", args{"path": 5, "from": "x", "lines": 1.5}, `"path" must be a string, got 5`, `"from" must be a whole number from 1`, `"lines" must be`)
	b.refused(t, "read", args{"path": "README.md", "from": 0}, `"from"`)
	b.refused(t, "edit", args{"path": "README.md", "old_str": "a", "new_str": []int{1}, "all": "yes"}, `"new_str" must be a string`, `"all" must be true or false`)
	b.refused(t, "write", args{"path": "x", "content": nil}, `"content" is missing`)
	b.ok(t, "read", args{"path": "README.md", "from": 1.0, "lines": nil})
	for _, raw := range []string{"[]", "null5", "{", `"x"`, "5"} {
		r, err := b.tools["read"].Run(t.Context(), json.RawMessage(raw))
		if err != nil || !r.Failed || !strings.Contains(r.Text, "not one JSON object") {
			t.Errorf("%s: got %+v, %v", raw, r, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tool := range b.tools {
		if _, err := tool.Run(ctx, json.RawMessage(`{}`)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v from an ended context", name, err)
		}
	}
}

func TestReadShowsNumberedLines(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]string{
		"a.txt": "one\ntwo\n\nfour\n", "crlf.txt": "a\r\nb", "empty": "", "long": strings.Repeat("x", 5000) + "\nend\n",
		"many": strings.Repeat("line\n", 10_000), "bin": "a\x00b", "latin": "caf\xe9\n", "dir/sub/f": "", "dir/g": "", "newline": "\n",
	})
	if got := b.ok(t, "read", args{"path": "a.txt"}); got != "     1\tone\n     2\ttwo\n     3\t\n     4\tfour\n" {
		t.Errorf("got %q", got)
	}
	if got := b.ok(t, "read", args{"path": "a.txt", "from": 2, "lines": 2}); got != "     2\ttwo\n     3\t\n(lines 2 to 3 of 4; go on with \"from\": 4)\n" {
		t.Errorf("got %q", got)
	}
	if got := b.ok(t, "read", args{"path": "crlf.txt"}); got != "     1\ta\n     2\tb\n(no line feed at the end of the file)\n" {
		t.Errorf("got %q", got)
	}
	if got := b.ok(t, "read", args{"path": "newline"}); got != "     1\t\n" {
		t.Errorf("got %q", got)
	}
	if got := b.ok(t, "read", args{"path": "empty"}); got != "empty is empty" {
		t.Errorf("got %q", got)
	}
	if got := b.ok(t, "read", args{"path": "long"}); len(got) > 2200 || !strings.Contains(got, "(3000 more bytes in this line)\n     2\tend\n") {
		t.Errorf("got %q", got)
	}
	if got := b.ok(t, "read", args{"path": "many"}); len(got) > 66_000 || !strings.Contains(got, "of 10000; go on with \"from\": ") {
		t.Errorf("got %d bytes, ending %q", len(got), got[len(got)-60:])
	}
	if got := b.ok(t, "read", args{"path": "latin"}); !strings.Contains(got, "(Latin-1; shown and edited as such)\n     1\tcafé\n") {
		t.Errorf("got %q", got)
	}
	if got := b.ok(t, "read", args{"path": "dir"}); got != "g\nsub/\n" {
		t.Errorf("got %q", got)
	}
	if got := b.ok(t, "read", args{"path": "."}); strings.Contains(got, ".git") || !strings.Contains(got, "dir/\n") {
		t.Errorf("got %q", got)
	}
	if got := b.ok(t, "read", args{"path": filepath.Join(b.dir, "a.txt"), "lines": 1}); !strings.HasPrefix(got, "     1\tone\n") {
		t.Errorf("an absolute path below the workspace: got %q", got)
	}
	b.refused(t, "read", args{"path": "bin"}, "binary (3 bytes)")
	b.refused(t, "read", args{"path": "a.txt", "from": 9}, "has 4 lines")
	b.refused(t, "read", args{"path": "none"}, "does not exist")
	b.refused(t, "read", args{"path": "a.txt/x"}, "is a file, not a directory")
}

func TestPathsThatLeadAwayAreRefused(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]string{"tasks/run/t.md": "task\n", "dir/f": "x\n"})
	outside := filepath.Join(filepath.Dir(b.dir), "outside")
	if err := os.WriteFile(outside, []byte("secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"abs": outside, "up": "../outside", "top": "..", "inner": ".git", "chore": "tasks", "circle": "circle",
		"deep/link": "../../outside", "good": "dir/f", "dangling": "dir/new", "hop": "dir/../../outside", "zigzag": "none/../../outside",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(b.dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{
		"../outside", "dir/../../outside", outside, "/etc/passwd", "abs", "up", "top/outside", "deep/link", "hop", "zigzag", "circle",
		".git/config", "inner/config", ".GIT/config", "dir/.git/config", "git~1/x", "", "a\x00b", b.dir + "-x/y",
	} {
		b.refused(t, "read", args{"path": name})
		b.refused(t, "write", args{"path": name, "content": "y"})
		b.refused(t, "edit", args{"path": name, "old_str": "secret", "new_str": "y"})
		b.refused(t, "search", args{"path": name + "/.", "pattern": "secret"})
	}
	for _, name := range []string{strings.Repeat("a/", 600) + "b", "tasks/run/t.md", "tasks/new.md", "./tasks/new", "dir/../tasks/x", "chore/x", "chore/run/t.md", "tasks"} {
		b.refused(t, "write", args{"path": name, "content": "y"})
		b.refused(t, "edit", args{"path": name, "old_str": "task", "new_str": "y"})
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "secret\n" {
		t.Errorf("outside: %q, %v", data, err)
	}
	b.ok(t, "read", args{"path": "tasks/run/t.md"})
	b.ok(t, "read", args{"path": "chore/run/t.md"})

	b.ok(t, "write", args{"path": "good", "content": "through\n"})
	b.is(t, "dir/f", "through\n")
	b.ok(t, "write", args{"path": "dangling", "content": "made\n"})
	b.is(t, "dir/new", "made\n")
	if info, err := os.Lstat(filepath.Join(b.dir, "good")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
}

func TestOddNames(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	for _, name := range []string{"with space", "-rf", "--help", "new\nline", "tab\there", `quote"'`, "ümlaut/日本", "%s", "$(x)", "*"} {
		b.ok(t, "write", args{"path": name, "content": "needle\nx\n"})
		b.is(t, name, "needle\nx\n")
		b.ok(t, "edit", args{"path": name, "old_str": "x", "new_str": "y"})
		b.is(t, name, "needle\ny\n")
		if got := b.ok(t, "search", args{"pattern": "needle", "path": name}); !strings.HasSuffix(got, ":1: needle\n") || strings.Count(got, "\n") != 1 {
			t.Errorf("%q: got %q", name, got)
		}
	}
	b.put(t, "bad\xff", "needle\n")
	if got := b.ok(t, "search", args{"pattern": "needle"}); !strings.Contains(got, "1 files whose names are not UTF-8") || strings.Count(got, ":1: needle") != 10 {
		t.Errorf("got %q", got)
	}
	if got := b.ok(t, "read", args{"path": "."}); !strings.Contains(got, `"bad\xff"`) {
		t.Errorf("got %q", got)
	}
	b.refused(t, "read", args{"path": "bad\uFFFD"}, "can't be given as text")
	b.refused(t, "write", args{"path": strings.Repeat("n", 300), "content": ""}, "name too long")
	b.refused(t, "write", args{"path": "sub/", "content": ""}, "directory")
}

func TestWriteKeepsTheManner(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]string{
		"crlf": "a\r\nb\r\n", "mixed": "a\r\nb\n", "bom": "\xef\xbb\xbfx\n", "latin": "caf\xe9\n", "wide": "\xff\xfea\x00\n\x00", "bin": "a\x00",
	})
	for _, c := range []struct{ path, content, want string }{
		{"new/deep/file", "x", "x"},
		{"crlf", "1\n2\r\n", "1\r\n2\r\n"},
		{"mixed", "1\n2\r\n", "1\n2\r\n"},
		{"bom", "y\n", "\xef\xbb\xbfy\n"},
		{"latin", "thé\n", "th\xe9\n"},
		{"wide", "é\n", "\xff\xfe\xe9\x00\n\x00"},
		{"bin", "text\n", "text\n"},
		{"README", "", ""},
	} {
		b.ok(t, "write", args{"path": c.path, "content": c.content})
		b.is(t, c.path, c.want)
	}
	if got := b.ok(t, "write", args{"path": "latin", "content": "日本\n"}); !strings.Contains(got, "now as UTF-8") {
		t.Errorf("got %q", got)
	}
	b.is(t, "latin", "日本\n")

	script := filepath.Join(b.dir, "run.sh")
	if err := os.WriteFile(script, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.ok(t, "write", args{"path": "run.sh", "content": "y"})
	if info, err := os.Stat(script); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode was not kept: %v, %v", info.Mode(), err)
	}
	left, err := filepath.Glob(filepath.Join(b.dir, ".git", "greenward-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if filepath.Base(name) != "greenward-hub" {
			t.Errorf("left behind: %s", name)
		}
	}
	b.refused(t, "write", args{"path": "new", "content": ""}, "is a directory")
	b.refused(t, "write", args{"path": "run.sh/x", "content": ""}, "is a file")

	if err := os.RemoveAll(filepath.Join(b.dir, ".git")); err != nil { // in place, then
		t.Fatal(err)
	}
	b.ok(t, "write", args{"path": "run.sh", "content": "z"})
	b.is(t, "run.sh", "z")
}

func TestSearch(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]string{
		".gitignore": "ignored\n*.log\n", "a.go": "package a\n// Needle one\n", "cmd/x/main.go": "needle two\r\nneedle three\r\n",
		"cmd/y.txt": "needle.\n", "bin": "needle\x00", "long": strings.Repeat("x", 1000) + "needle" + strings.Repeat("y", 1000) + "\n",
		"gone": "needle\n",
	})
	b.put(t, "ignored", "needle\n")
	b.put(t, "x.log", "needle\n")
	b.put(t, "fresh", "needle fresh\n")
	if err := os.Remove(filepath.Join(b.dir, "gone")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args args
		want string
	}{
		{args{"pattern": "needle", "glob": "*.go"}, "cmd/x/main.go:1: needle two\ncmd/x/main.go:2: needle three\n"},
		{args{"pattern": "needle", "glob": "*.go", "ignore_case": true}, "a.go:2: // Needle one\ncmd/x/main.go:1: needle two\ncmd/x/main.go:2: needle three\n"},
		{args{"pattern": "e.$", "path": "cmd"}, "cmd/x/main.go:2: needle three\ncmd/y.txt:1: needle.\n"},
		{args{"pattern": "e.", "path": "cmd/y.txt", "literal": true}, "cmd/y.txt:1: needle.\n"},
		{args{"pattern": "needle fr"}, "fresh:1: needle fresh\n"},
		{args{"pattern": "needle", "path": "ignored"}, "ignored:1: needle\n"},
		{args{"pattern": "absent", "path": "cmd"}, "(0 matches in 2 files)\n"},
		{args{"glob": "cmd/**/*.{go,txt}"}, "cmd/x/main.go\ncmd/y.txt\n"},
		{args{"path": "cmd", "glob": "m[a-b]?n.*"}, "cmd/x/main.go\n"},
		{args{"pattern": "(needle)", "path": "long"}, "long:1: …" + strings.Repeat("x", 100) + "needle" + strings.Repeat("y", 194) + "… (806 more bytes in this line)\n"},
	} {
		if diff := cmp.Diff(c.want, b.ok(t, "search", c.args)); diff != "" {
			t.Errorf("%v: -want +got\n%s", c.args, diff)
		}
	}
	b.refused(t, "search", args{"pattern": "("}, `"pattern"`, "literal")
	b.refused(t, "search", args{"pattern": "x", "glob": "[z-a]"}, `"glob"`)
	b.refused(t, "search", args{"pattern": "x", "path": "nowhere"}, "does not exist")
}

func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]string{"many": strings.Repeat("needle\n", 2000)})
	got := b.ok(t, "search", args{"pattern": "needle"})
	if strings.Count(got, ": needle\n") != 500 || !strings.Contains(got, "(1500 of 2000 matches left out") {
		t.Errorf("got %d lines, ending %q", strings.Count(got, "\n"), got[len(got)-80:])
	}
	big := filepath.Join(b.dir, "big")
	if err := os.WriteFile(big, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, 1<<30); err != nil {
		t.Fatal(err)
	}
	if got := b.ok(t, "search", args{"pattern": "x", "path": "big"}); !strings.Contains(got, "not searched: big has 1073741824 bytes") {
		t.Errorf("got %q", got)
	}
	b.refused(t, "read", args{"path": "big"}, "use the shell")
}

// What an agent does to its .git is no matter to greenward's own git beside it.
func TestSearchWithoutTheAgentsRepository(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]string{"f": "needle\n"})
	b.ok(t, "shell", args{"command": "rm -rf .git"})
	if got := b.ok(t, "search", args{"pattern": "needle"}); !strings.Contains(got, "f:1: needle") {
		t.Errorf("got %q", got)
	}
}

func TestReadersChangeNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := tools.Open(tools.Env{Dir: dir, Spool: t.TempDir(), Files: func(context.Context) ([]string, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	readers, err := w.Readers()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range readers {
		names = append(names, tool.Name)
	}
	if diff := cmp.Diff([]string{"read", "search"}, names); diff != "" {
		t.Error(diff)
	}
	if _, err := tools.Open(tools.Env{Dir: dir}); err == nil {
		t.Error("a workspace without Files was opened")
	}
	if _, err := tools.Open(tools.Env{Dir: filepath.Join(dir, "none"), Spool: dir, Files: func(context.Context) ([]string, error) { return nil, nil }}); err == nil {
		t.Error("a workspace that is not there was opened")
	}
}
