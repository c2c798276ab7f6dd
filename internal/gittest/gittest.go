// Package gittest makes real git repositories for tests. Authors and dates are
// pinned and no configuration of the machine is read, so that histories are the
// same everywhere and can be golden text. It knows nothing of greenward's rules.
package gittest

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"greenward/internal/proc"
)

// Deleted as a file's content removes it.
const Deleted = "\x00deleted"

// Start is when pinned history begins.
func Start() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }

// Host is an environment with the machine's PATH and Go caches, a fresh HOME and
// nothing else that the machine is configured with.
func Host(tb testing.TB) proc.Host {
	tb.Helper()
	home := tb.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + os.TempDir()}
	caches := map[string]string{}
	if dir, err := os.UserCacheDir(); err == nil {
		caches["GOCACHE"] = filepath.Join(dir, "go-build")
	}
	if dir, err := os.UserHomeDir(); err == nil {
		caches["GOPATH"] = filepath.Join(dir, "go")
	}
	for _, key := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY"} {
		if value := cmp.Or(os.Getenv(key), caches[key]); value != "" {
			env = append(env, key+"="+value)
		}
	}
	return proc.NewHost(env)
}

// Clock is a clock that begins at Start plus one day and moves one second on at
// every reading. It is safe for concurrent use.
func Clock() func() time.Time {
	var mu sync.Mutex
	now := Start().Add(24 * time.Hour)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}
}

// Bare makes an empty bare repository whose HEAD is main.
func Bare(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "hub.git")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	Git(tb, dir, "init", "-q", "--bare", "-b", "main", ".")
	return dir
}

// Git runs git in dir and gives what it printed, without the last line end.
func Git(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	return run(tb, dir, "", nil, args...)
}

func run(tb testing.TB, dir, stdin string, env []string, args ...string) string {
	tb.Helper()
	var stdout, stderr bytes.Buffer
	result, err := proc.Run(tb.Context(), proc.Command{
		Name: "git", Args: append([]string{"-c", "gc.auto=0", "-c", "commit.gpgSign=false", "-c", "protocol.file.allow=always"}, args...), Dir: dir,
		Env: append([]string{
			"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C", "TZ=UTC",
			"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
			"GIT_AUTHOR_DATE=" + date(0), "GIT_COMMITTER_DATE=" + date(0), "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=true",
		}, env...),
		Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Timeout: time.Minute,
	})
	if err != nil || !result.OK() {
		tb.Fatalf("git %s: %v %+v\n%s", strings.Join(args, " "), err, result, stderr.String())
	}
	return strings.TrimSuffix(stdout.String(), "\n")
}

func date(n int) string {
	return strconv.FormatInt(Start().Add(time.Duration(n)*time.Minute).Unix(), 10) + " +0000"
}

// Commit puts a commit with the files on a branch of a bare repository and gives
// its id. The branch is made when it is not there. Dates are one minute apart
// along a history.
func Commit(tb testing.TB, dir, branch, message string, files map[string]string) string {
	tb.Helper()
	ref := "refs/heads/" + branch
	parent := Git(tb, dir, "for-each-ref", "--format=%(objectname)", ref)
	n := 0
	index := []string{"GIT_INDEX_FILE=" + filepath.Join(tb.TempDir(), "index")}
	var parents []string
	if parent != "" {
		parents = []string{"-p", parent}
		count, err := strconv.Atoi(Git(tb, dir, "rev-list", "--count", parent))
		if err != nil {
			tb.Fatal(err)
		}
		n = count
		run(tb, dir, "", index, "read-tree", parent)
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	var lines strings.Builder
	for _, name := range names {
		if files[name] == Deleted {
			lines.WriteString("0 0000000000000000000000000000000000000000\t" + name + "\x00")
			continue
		}
		blob := run(tb, dir, files[name], nil, "hash-object", "-w", "--stdin")
		lines.WriteString("100644 " + blob + "\t" + name + "\x00")
	}
	run(tb, dir, lines.String(), index, "update-index", "-z", "--index-info")
	tree := run(tb, dir, "", index, "write-tree")
	when := []string{"GIT_AUTHOR_DATE=" + date(n), "GIT_COMMITTER_DATE=" + date(n)}
	commit := run(tb, dir, message, when, append([]string{"commit-tree", tree, "-F", "-"}, parents...)...)
	Git(tb, dir, "update-ref", ref, commit)
	return commit
}
