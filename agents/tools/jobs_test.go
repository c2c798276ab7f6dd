package tools_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A server runs beside other commands, is looked at and stopped; none is left
// when the workspace is closed.
func TestBackgroundCommands(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	fifo := filepath.Join(b.dir, "in")
	started := b.ok(t, "shell", args{"command": "mkfifo in; echo ready; while :; do read line <in && echo got $line; done", "background": true})
	if !strings.HasPrefix(started, "job1 runs in the background") {
		t.Fatalf("started: %q", started)
	}
	kept := regexp.MustCompile(`kept in (\S.*?\.txt)`).FindStringSubmatch(started)
	b.ok(t, "shell", args{"command": "while [ ! -p in ]; do :; done; echo one >in"})
	if _, err := os.Stat(fifo); err != nil {
		t.Fatal(err)
	}
	b.ok(t, "shell", args{"command": fmt.Sprintf("while ! grep -q 'got one' '%s'; do :; done", kept[1])})
	if got := b.ok(t, "job", args{"job": "job1"}); !strings.Contains(got, "ready\ngot one") || !strings.HasSuffix(got, "[still running]") {
		t.Errorf("running: %q", got)
	}
	if got := b.ok(t, "job", args{"job": "job1", "stop": true}); !strings.Contains(got, "stopped") && !strings.Contains(got, "ended by signal") {
		t.Errorf("stopped: %q", got)
	}
	if got := b.ok(t, "shell", args{"command": "echo quick; exit 3", "background": true}); !strings.Contains(got, "quick") {
		t.Errorf("a quick one: %q", got)
	}
	if got := b.ok(t, "job", args{"job": "job2", "wait": 20}); !strings.Contains(got, "quick\n[exit code 3") {
		t.Errorf("its end: %q", got)
	}
	b.refused(t, "job", args{"job": "job9"}, "no job of this task")
	for range 4 {
		b.ok(t, "shell", args{"command": "sleep 600", "background": true})
	}
	b.refused(t, "shell", args{"command": "sleep 600", "background": true}, "4 commands run in the background already")
}

// TestA37CaseClash: a name that differs from another in case alone is not made.
func TestA37CaseClash(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]string{"README.md": "x\n", "src/Lib/a.go": "package lib\n"})
	b.refused(t, "write", args{"path": "Readme.md", "content": "y\n"}, `README.md already, which differs in case alone`)
	b.refused(t, "write", args{"path": "src/lib/b.go", "content": "y\n"}, `src/Lib already`)
	b.ok(t, "write", args{"path": "src/Lib/b.go", "content": "package lib\n"})
	b.ok(t, "write", args{"path": "README.md", "content": "y\n"})
}

// TestA34CRLF: LF in what a model gives fits CR LF in the file; no other line of
// it changes.
func TestA34CRLF(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]string{"w.txt": "one\r\ntwo\r\nthree\r\n", ".gitattributes": "* -text\n"})
	b.ok(t, "edit", args{"path": "w.txt", "old_str": "one\ntwo\n", "new_str": "one\n2\n2b\n"})
	got, err := os.ReadFile(filepath.Join(b.dir, "w.txt"))
	if err != nil || string(got) != "one\r\n2\r\n2b\r\nthree\r\n" {
		t.Errorf("%q, %v", got, err)
	}
	if stat := b.ok(t, "shell", args{"command": "git diff --numstat"}); !strings.HasPrefix(stat, "2\t1\tw.txt") {
		t.Errorf("the diff is %q", stat)
	}
}

// Search leaves out what git ignores, and finds it where it is asked for by name.
func TestSearchHonoursGitignore(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]string{".gitignore": "build/\n*.log\n!keep.log\n", "a.go": "needle\n", "sub/.gitignore": "x.txt\n", "sub/y.txt": "needle\n"})
	b.ok(t, "shell", args{"command": "mkdir build && echo needle | tee build/out.txt a.log keep.log sub/x.txt"})
	if got := b.ok(t, "search", args{"pattern": "needle"}); got != "a.go:1: needle\nkeep.log:1: needle\nsub/y.txt:1: needle\n" {
		t.Errorf("found %q", got)
	}
	if got := b.ok(t, "search", args{"pattern": "needle", "path": "a.log"}); got != "a.log:1: needle\n" {
		t.Errorf("found by name %q", got)
	}
}
