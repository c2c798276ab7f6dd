package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"greenward/agents/tools"
)

func TestShell(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]string{"f": "x\n"})
	for command, want := range map[string]string{
		"cat f; echo err >&2; exit 3":         "x\nerr\n[exit code 3, after ",
		"true":                                "(no output)\n[exit code 0, after ",
		"kill -9 $$":                          "(no output)\n[ended by signal: killed, after ",
		"pwd":                                 b.dir + "\n[exit code 0",
		`printf 'a\0b\377c'`:                  "a\uFFFDb\uFFFDc\n[exit code 0",
		"git rev-parse --abbrev-ref HEAD":     "task\n[exit code 0",
		"(sleep 600 & ) ; echo started":       "started\n[exit code 0",
		"nosuchcommand-xyz 2>/dev/null":       "(no output)\n[exit code 127",
		"echo 'a  b' | tr -s ' ' && echo \\t": "a b\n",
	} {
		if got := b.ok(t, "shell", args{"command": command}); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", command, got, want)
		}
	}
	b.refused(t, "shell", args{"command": " \n"}, "empty")
	b.refused(t, "shell", args{"command": "a\x00b"}, "NUL")
	b.refused(t, "shell", args{"command": "true", "timeout": 0}, `"timeout"`)
	if left, err := os.ReadDir(b.spool); err != nil || len(left) != 0 {
		t.Errorf("short outputs were kept: %v, %v", left, err)
	}
}

func TestA16NothingAsks(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]string{"f": "x\n"})
	for command, want := range map[string]string{
		"cat; read x; echo end":                                    "end\n[exit code 0",
		"git log --oneline":                                        "[exit code 0",
		"git commit --amend":                                       "[exit code 0", // would open an editor
		"git rebase -i --root":                                     "[exit code 0",
		"git fetch https://127.0.0.1:1/x":                          "[exit code 128",
		"git -c core.askPass= ls-remote https://u@127.0.0.1:1/x":   "[exit code 128",
		`echo "$PAGER $GIT_EDITOR $CI $GIT_TERMINAL_PROMPT $TERM"`: "cat true 1 0 dumb\n",
	} {
		began := time.Now()
		if got := b.ok(t, "shell", args{"command": command, "timeout": 15}); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", command, got, want)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("%s took %s", command, took)
		}
	}
}

func TestA15ShellTimesOutWithPartialOutput(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	began := time.Now()
	got := b.ok(t, "shell", args{"command": "echo partial; sleep 9999 & wait", "timeout": 1})
	if !strings.HasPrefix(got, "partial\n[killed with all its processes after the time limit of 1s.") {
		t.Errorf("got %q", got)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestShellNeverRunsLongerThanTheWorkspaceAllows(t *testing.T) {
	t.Parallel()
	b := open(t, nil, func(env *tools.Env) { env.Timeout = time.Second })
	if got := b.ok(t, "shell", args{"command": "sleep 9999", "timeout": 5000}); !strings.Contains(got, "time limit of 1s") {
		t.Errorf("got %q", got)
	}
}

func TestShellEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	raw := json.RawMessage(`{"command": "sleep 9999"}`)
	if _, err := b.tools["shell"].Run(ctx, raw); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestA19LongOutputIsCutAndSpooled(t *testing.T) {
	t.Parallel()
	b := open(t, nil, func(env *tools.Env) { env.Output = 4000 })
	got := b.ok(t, "shell", args{"command": "echo first; head -c 300000 /dev/zero | tr '\\0' x; echo; echo last"})
	if len(got) > 4400 || !strings.HasPrefix(got, "first\nxxx") || !strings.Contains(got, "last\n[exit code 0") || !strings.Contains(got, "bytes left out …") {
		t.Errorf("got %d bytes: %.50q … %.300q", len(got), got, got[max(0, len(got)-300):])
	}
	match := regexp.MustCompile(`\[the whole output, 300012 bytes: (.*)\]`).FindStringSubmatch(got)
	if match == nil {
		t.Fatalf("no file is named in %q", got[len(got)-200:])
	}
	if filepath.Dir(match[1]) != b.spool {
		t.Errorf("spooled to %s", match[1])
	}
	if info, err := os.Stat(match[1]); err != nil || info.Size() != 300012 {
		t.Errorf("got %v, %v", info, err)
	}
	if text := b.ok(t, "read", args{"path": match[1], "from": 3}); !strings.Contains(text, "last") {
		t.Errorf("reading the spool: got %q", text)
	}
	b.refused(t, "write", args{"path": match[1], "content": ""}, "outside")
}

func TestA55ShellSeesNoSecrets(t *testing.T) {
	t.Setenv("SECRET_OF_THE_PARENT", "hunter2")
	b := open(t, nil, func(env *tools.Env) {
		env.Environ = append(env.Environ, "OPENAI_API_KEY=hunter2", "GREENWARD_GITHUB_TOKEN=hunter2", "ALLOWED=yes")
	})
	got := b.ok(t, "shell", args{"command": "env; cat /proc/self/environ; git remote -v; git config -l"})
	if strings.Contains(got, "hunter2") || !strings.Contains(got, "ALLOWED=yes") {
		t.Errorf("got %q", got)
	}
}

func TestShellStaysInItsRepository(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	if got := b.ok(t, "shell", args{"command": "rm -rf .git; git status"}); !strings.Contains(got, "not a git repository") {
		t.Errorf("got %q", got)
	}
}

// TestA06TheDirectoryIsGone: when a command has removed the workspace under itself,
// its result and every later one say so, instead of something about a shell.
func TestA06TheDirectoryIsGone(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]string{"sub/f": "x\n"})
	// A directory within is no matter: each command begins at the top.
	b.ok(t, "shell", args{"command": "cd sub && rm -rf ../sub && cat f"})
	if got := b.ok(t, "shell", args{"command": "pwd"}); !strings.HasPrefix(got, b.dir+"\n") {
		t.Errorf("after that: %q", got)
	}
	b.ok(t, "shell", args{"command": `rm -rf "$PWD"; true`})
	b.refused(t, "shell", args{"command": "pwd"}, "the workspace's directory is gone")
}

// TestA16HintsWhereSomethingWouldAsk: what wants a password or a terminal ends at
// once and says why; what waits for an answer is ended with a hint.
func TestA16HintsWhereSomethingWouldAsk(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]string{"f": "x\n"})
	got := b.ok(t, "shell", args{"command": "sleep 9999 </dev/null", "timeout": 1})
	if !strings.Contains(got, "If it waited for input: there is none") {
		t.Errorf("what waits: %q", got)
	}
	for command, program := range map[string]string{
		"ssh -p 1 nobody@127.0.0.1 true": "ssh", "sudo -k true": "sudo", "npm init": "npm", "git push https://u@127.0.0.1:1/x HEAD:x": "git",
	} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("%s is not installed", program)
			continue
		}
		began := time.Now()
		got := b.ok(t, "shell", args{"command": command, "timeout": 20})
		if strings.Contains(got, "killed with all its processes") || !strings.Contains(got, "[exit code ") {
			t.Errorf("%s waits for somebody: %q after %s", command, got, time.Since(began))
		}
	}
}
