package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/proc"
)

func TestJudgeSeesOneCommitWithoutTasks(t *testing.T) {
	b := newBench(t)
	files := map[string]string{"a.txt": "hello\n", "sub/b.txt": "b\n", "tasks/x/GOAL.md": "build it\n", "sub/tasks/keep.txt": "kept\n"}
	b.commit(t, map[string]string{"old": "1"})
	s := b.commit(t, files)
	o := b.only(t, s, check("look", `
		pwd
		find . -path ./.git -prune -o -type f -print | sort
		git status --porcelain
		git log --format='%an <%ae> %ad %s' --date=iso
		git remote; git config --get user.name; ls .git/hooks 2>&1 | head -1
		git symbolic-ref HEAD; exit 1`))
	want := filepath.Join(b.dir, "greenward", "work", "check-0") + `
./a.txt
./old
./sub/b.txt
./sub/tasks/keep.txt
greenward <greenward@localhost> 1970-01-01 00:00:00 +0000 snapshot
ls: cannot access '.git/hooks': No such file or directory
refs/heads/main
`
	if diff := cmp.Diff(want, o.Output); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if o.Verdict != Failed || o.Cause != CauseExit || o.Ran != 1 || o.Runs != 1 {
		t.Errorf("outcome: %+v", o)
	}
	if got := readFile(t, o.Spool); got != want {
		t.Errorf("spool: %q", got)
	}
}

func TestJudgeWithHistorySeesIt(t *testing.T) {
	b := newBench(t)
	b.commit(t, map[string]string{"a": "1", "tasks/x.md": "do"})
	gittest.Git(t, b.dir, "tag", "-a", "-m", "one", "v1", "main")
	s := b.commit(t, map[string]string{"a": "2"})
	c := check("look", `git rev-parse HEAD; git rev-list --count HEAD; git describe --dirty; ls; git status --porcelain; git remote; exit 1`)
	c.History = true
	o := b.only(t, s, c)
	want := fmt.Sprintf("%s\n2\nv1-1-g%s\na\n", s.Commit, s.Commit[:7])
	if diff := cmp.Diff(want, o.Output); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(o.Evidence[0], string(s.Commit)+"/look/") {
		t.Errorf("key %q is not the commit's", o.Evidence[0])
	}
	if o := b.only(t, Subject{Tree: git.Hash(gittest.Git(t, b.dir, "rev-parse", "main^{tree}"))}, c); o.Verdict != Broken {
		t.Errorf("history of a tree: %+v", o)
	}
}

func TestEqualTreesShareEvidence(t *testing.T) {
	b := newBench(t)
	c := check("test", "true")
	first := b.judge(t, b.commit(t, map[string]string{"a": "1", "tasks/x.md": "do"}), c)
	s := b.commit(t, map[string]string{"tasks/x.md": gittest.Deleted})
	second := b.judge(t, s, c)
	if first.Ran != 1 || second.Ran != 0 || second.Verdict() != Passed || first.Tree != second.Tree {
		t.Errorf("first %+v, second %+v", first, second)
	}
	if report, err := b.runner.Known(s, []config.Check{c}); err != nil || report.Verdict() != Passed {
		t.Errorf("known: %+v, %v", report, err)
	}
	// Another definition is another question.
	if third := b.judge(t, s, check("test", "true # again")); third.Ran != 1 {
		t.Errorf("third: %+v", third)
	}
	if report, err := b.runner.Known(s, []config.Check{check("never", "true")}); err != nil || report.Verdict() != Unknown {
		t.Errorf("G11 a check that never ran: %+v, %v", report, err)
	}
}

func TestAgainOutvotes(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1"})
	count := filepath.Join(t.TempDir(), "count")
	c := check("flaky", fmt.Sprintf(`echo x >> %[1]s; echo "flags $GOFLAGS"; test $(wc -l < %[1]s) -ne 1`, count))
	want := []Verdict{Failed, Failed, Passed}
	for i, v := range want {
		report, err := b.runner.Judge(t.Context(), s, []config.Check{c}, true)
		if err != nil {
			t.Fatal(err)
		}
		o := report.Outcomes[0]
		if o.Verdict != v || o.Runs != i+1 || o.Ran != 1 {
			t.Errorf("run %d: %+v, want %s", i, o, v)
		}
		if !strings.Contains(o.Output, "-count=1") {
			t.Errorf("run %d could be answered from go test's cache: %q", i, o.Output)
		}
	}
}

func TestJudgeWithoutChecksNeverPasses(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1"})
	report, err := b.runner.Judge(t.Context(), s, nil, false)
	if !errors.Is(err, config.ErrNoChecks) || report.Verdict() == Passed {
		t.Errorf("got %v, %v", report.Verdict(), err)
	}
	if _, err := b.runner.Known(s, nil); !errors.Is(err, config.ErrNoChecks) {
		t.Errorf("known: %v", err)
	}
}

func TestG21BrokenBlamesNobody(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1"})
	tests := map[string]struct {
		check config.Check
		cause Cause
	}{
		"not found":      {check("a", "no-such-command-here"), CauseMissing},
		"not executable": {check("b", "./a"), CauseMissing},
		"killed":         {check("c", "kill -9 $$"), CauseKilled},
		"killed below":   {check("d", "sh -c 'kill -9 $$'; exit $?"), CauseKilled},
	}
	for name, tt := range tests {
		if o := b.only(t, s, tt.check); o.Verdict != Broken || o.Cause != tt.cause || o.Why == "" {
			t.Errorf("%s: %+v", name, o)
		}
	}
	c := check("boxed", "true")
	c.Sandbox = true
	if o := b.only(t, s, c); o.Verdict != Broken || o.Cause != CauseSandbox || o.Ran != 0 {
		t.Errorf("a sandbox that is not there: %+v", o)
	}
}

func TestG21NoWorkspaceIsBroken(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1"})
	writeFile(t, filepath.Join(b.runner.State, "work"), "in the way")
	o := b.only(t, s, check("a", "true"))
	if o.Verdict != Broken || o.Cause != CauseWorkspace || o.Runs != 1 {
		t.Errorf("got %+v", o)
	}
	// Infrastructure is tried again by itself, without again, and then passes.
	if err := os.Remove(filepath.Join(b.runner.State, "work")); err != nil {
		t.Fatal(err)
	}
	if o := b.only(t, s, check("a", "true")); o.Verdict != Passed || o.Runs != 2 {
		t.Errorf("later: %+v", o)
	}
}

func TestInconclusiveTriesAreBounded(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1"})
	c := check("a", "exit 127")
	ran := 0
	for range 6 {
		ran += b.judge(t, s, c).Ran
	}
	if ran != inconclusiveTries {
		t.Errorf("ran %d times, want %d", ran, inconclusiveTries)
	}
	now := b.runner.Now
	b.runner.Now = func() time.Time { return now().Add(inconclusiveRest) }
	if report := b.judge(t, s, c); report.Ran != 1 {
		t.Errorf("after the rest it ran %d times, want 1", report.Ran)
	}
}

func TestG03HangKillsTheWholeTree(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1"})
	pids := filepath.Join(t.TempDir(), "pids")
	c := check("hang", fmt.Sprintf(`echo begun
		(setsid sh -c 'trap "" TERM HUP; echo $$ >> %[1]s; sleep 600' &) 
		sh -c 'trap "" TERM; echo $$ >> %[1]s; sleep 601' &
		while [ $(wc -l < %[1]s) -lt 2 ]; do :; done 2>/dev/null
		sleep 602`, pids))
	writeFile(t, pids, "")
	c.Timeout = 700 * time.Millisecond
	began := time.Now()
	for i := range 2 {
		o := b.only(t, s, c)
		if o.Verdict != Unknown || o.Cause != CauseTimeout || o.Timeouts != i+1 || !strings.Contains(o.Output, "begun") {
			t.Errorf("hang %d: %+v", i+1, o)
		}
		if got := o.Hung(Passed); (got == Failed) != (i == 1) {
			t.Errorf("hang %d where the parent passes: %s", i+1, got)
		}
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("two hangs took %s", took)
	}
	assertDead(t, pids)
}

// assertDead fails for every pid in the file that is still there.
func assertDead(t *testing.T, file string) {
	t.Helper()
	for pid := range strings.FieldsSeq(readFile(t, file)) {
		n, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatal(err)
		}
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n))
		if err == nil && !strings.Contains(string(state), ") Z ") {
			t.Errorf("process %d is still there: %s", n, state)
		}
	}
}

func TestDaemonsDoNotOutliveTheCheck(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1"})
	pids := filepath.Join(t.TempDir(), "pids")
	writeFile(t, pids, "")
	o := b.only(t, s, check("daemon", fmt.Sprintf(`
		(setsid sh -c 'echo $$ >> %[1]s; exec sleep 600' >/dev/null 2>&1 &)
		while [ ! -s %[1]s ]; do :; done`, pids)))
	if o.Verdict != Passed {
		t.Errorf("got %+v", o)
	}
	assertDead(t, pids)
}

func TestOutputOfAnyKindIsKept(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1"})
	binary := b.only(t, s, check("binary", `printf 'a\000\377\376b\n'; head -c 1000 /dev/urandom; exit 3`))
	if binary.Verdict != Failed || strings.ContainsRune(binary.Output, 0) || !strings.HasPrefix(binary.Output, "a\uFFFD") {
		t.Errorf("binary: %+v", binary)
	}
	flood := b.only(t, s, check("flood", `echo first; head -c 200000000 /dev/zero | tr '\000' x; echo; echo last; exit 4`))
	if flood.Verdict != Failed || !strings.HasPrefix(flood.Output, "first\nxxx") || !strings.HasSuffix(flood.Output, "xxx\nlast\n") {
		t.Errorf("flood: %s %s", flood.Verdict, flood.Why)
	}
	if len(flood.Output) > headKept+tailKept+100 {
		t.Errorf("%d bytes of output in memory", len(flood.Output))
	}
	info, err := os.Stat(flood.Spool)
	if err != nil || info.Size() < maxSpool || info.Size() > maxSpool+200 {
		t.Errorf("spool: %v, %v", info, err)
	}
	kept, err := os.ReadFile(flood.Spool)
	note := fmt.Sprintf("\n… %d bytes were written here and not kept …\n", len("first\n")+200000000+len("\nlast\n")-maxSpool)
	if text := string(kept); err != nil || !strings.HasPrefix(text, "first\nxxx") || !strings.HasSuffix(text, "xxx\nlast\n") || strings.Count(text, note) != 1 {
		t.Errorf("kept %d bytes, %v", len(kept), err)
	}
}

func TestStdinAndTerminalAreClosed(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1"})
	o := b.only(t, s, check("ask", `read answer && exit 1; echo "no answer"; if (: < /dev/tty) 2>/dev/null; then echo terminal; exit 2; fi; test ! -t 1`))
	if o.Verdict != Passed {
		t.Errorf("got %+v", o)
	}
}

func TestWritingIntoTheWorkspaceStaysThere(t *testing.T) {
	b := newBench(t)
	b.commit(t, map[string]string{"a": "1"})
	s := b.commit(t, map[string]string{"a": "2"})
	before := b.objectsAndRefs(t)
	o := b.only(t, s, check("write", `set -e
		git -c user.name=x -c user.email=x@y commit -q --allow-empty -m mine
		git tag mine; git update-ref refs/heads/other HEAD; echo x > new; git add new; git gc -q
		mkdir ro; touch ro/f; chmod 500 ro; git repack -adq; git prune`))
	if o.Verdict != Passed {
		t.Fatalf("got %+v", o)
	}
	if diff := cmp.Diff(before, b.objectsAndRefs(t)); diff != "" {
		t.Errorf("the hub changed (-before +after):\n%s", diff)
	}
	again := b.only(t, s, check("fresh", `test ! -e new && test ! -e ro && test $(git rev-list --all --count) = 1`))
	if again.Verdict != Passed {
		t.Errorf("the next workspace is not fresh: %+v", again)
	}
	if left, err := os.ReadDir(filepath.Join(b.runner.State, "work")); err != nil || slices.ContainsFunc(left, os.DirEntry.IsDir) {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// objectsAndRefs lists all that a hub holds, except the ledger and what only it needs.
func (b *bench) objectsAndRefs(t *testing.T) []string {
	t.Helper()
	gone := map[string]bool{string(git.EmptyTree): true}
	if refs := gittest.Git(t, b.dir, "for-each-ref", "refs/notes/greenward"); refs != "" {
		for line := range strings.SplitSeq(gittest.Git(t, b.dir, "rev-list", "--objects", "refs/notes/greenward"), "\n") {
			gone[line[:40]] = true
		}
	}
	var have []string
	for line := range strings.SplitSeq(gittest.Git(t, b.dir, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"), "\n") {
		if !gone[line[:40]] {
			have = append(have, line)
		}
	}
	for line := range strings.SplitSeq(gittest.Git(t, b.dir, "for-each-ref"), "\n") {
		if !strings.HasSuffix(line, "refs/notes/greenward") {
			have = append(have, line)
		}
	}
	return append(have, readFile(t, filepath.Join(b.dir, "config")), readFile(t, filepath.Join(b.dir, "HEAD")))
}

func TestTheUsersConfigurationHasNoEffect(t *testing.T) {
	dir := gittest.Bare(t)
	home := t.TempDir()
	touched := filepath.Join(home, "touched")
	hooks := filepath.Join(home, "hooks")
	if err := os.Mkdir(hooks, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, hook := range []string{"post-checkout", "reference-transaction", "post-index-change", "pre-commit"} {
		if err := os.WriteFile(filepath.Join(hooks, hook), []byte("#!/bin/sh\necho "+hook+" >> "+touched+"\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(home, ".gitconfig"), fmt.Sprintf(
		"[core]\n\thooksPath = %s\n\tautocrlf = true\n\tfsmonitor = %s/pre-commit\n[commit]\n\tgpgSign = true\n[user]\n\tname = Mallory\n[init]\n\ttemplateDir = %s\n[filter \"x\"]\n\tsmudge = false\n\trequired = true\n", hooks, hooks, hooks))
	host := gittest.Host(t).With("HOME="+home, "XDG_CONFIG_HOME="+home, "GIT_CONFIG_GLOBAL="+filepath.Join(home, ".gitconfig"), "GIT_DIR=/nonexistent", "GIT_INDEX_FILE=/nonexistent")
	b := openBench(t, dir, host)
	b.commit(t, map[string]string{"a": "one\ntwo\n", ".gitattributes": "* filter=x\n"})
	s := b.commit(t, map[string]string{"b": "1"})
	before := b.objectsAndRefs(t)
	o := b.only(t, s, check("config", `printf 'one\ntwo\n' | cmp - a && test -z "$(git config user.name)" && test "$HOME" = `+home+
		` && git -c user.name=x -c user.email=x@y commit -q --allow-empty -m mine`))
	if o.Verdict != Passed {
		t.Errorf("got %+v\n%s", o, o.Output)
	}
	if data, err := os.ReadFile(touched); err == nil {
		t.Errorf("hooks ran: %s", data)
	}
	if diff := cmp.Diff(before, b.objectsAndRefs(t)); diff != "" {
		t.Errorf("the hub changed (-before +after):\n%s", diff)
	}
}

func TestSecretsAreWithheld(t *testing.T) {
	host := gittest.Host(t).With("OPENAI_API_KEY=sk-secret", "GITHUB_TOKEN=ghp-secret", "SSH_AUTH_SOCK=/tmp/secret", "GREENWARD_KEY=secret",
		"GOPROXY=https://user:secret@modules.invalid/go,direct", "https_proxy=http://outer.invalid:3128", "LC_ALL=C.UTF-8", "AWS_SECRET_ACCESS_KEY=secret")
	b := openBench(t, gittest.Bare(t), host)
	b.runner.Caches = map[string]string{"GOCACHE": "/cache/go"}
	o := b.only(t, b.commit(t, map[string]string{"a": "1"}), check("env", "env | sort; exit 1"))
	if strings.Contains(o.Output, "secret") {
		t.Errorf("a secret was passed:\n%s", o.Output)
	}
	for _, want := range []string{"LC_ALL=C.UTF-8", "GOCACHE=/cache/go", "https_proxy=http://outer.invalid:3128", "PATH=", "HOME="} {
		if !strings.Contains(o.Output, want) {
			t.Errorf("%s is missing:\n%s", want, o.Output)
		}
	}
}

func TestCancelledLeavesNoLine(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1"})
	begun := filepath.Join(t.TempDir(), "begun")
	ctx, cancel := context.WithCancel(t.Context())
	fifo(t, begun)
	go func() {
		defer cancel()
		_, err := os.ReadFile(begun) // until the check has opened it
		if err != nil {
			t.Error(err)
		}
	}()
	_, err := b.runner.Judge(ctx, s, []config.Check{check("slow", "echo > "+begun+"; sleep 600")}, false)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if all, err := b.ledger.All(); err != nil || len(all) != 0 {
		t.Errorf("lines: %+v, %v", all, err)
	}
}

func fifo(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestChecksRunInParallelWithinTheSlots(t *testing.T) {
	b := newBench(t)
	b.runner.Slots = 2
	s := b.commit(t, map[string]string{"a": "1"})
	meet := filepath.Join(t.TempDir(), "meet")
	fifo(t, meet)
	// Neither can end before the other has begun; the rest has to wait for them.
	report := b.judge(t, s, check("write", "echo x > "+meet), check("read", "cat "+meet), check("more", "true"), check("last", "true"))
	if report.Verdict() != Passed || report.Ran != 4 {
		t.Errorf("got %+v", report)
	}
	release, err := proc.Lock(filepath.Join(b.runner.State, "turns", "check-0.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if o := b.only(t, s, check("where", "case $PWD in */check-1) exit 0;; esac; exit 1")); o.Verdict != Passed {
		t.Errorf("beside another process: %+v", o)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

func TestRemoteChecksAreNeverRun(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1"})
	c := config.Check{Name: "e2e", Remote: "CI / e2e", Required: true}
	if o := b.only(t, s, c); o.Verdict != Unknown || o.Ran != 0 || o.Cause != CauseAbsent {
		t.Errorf("got %+v", o)
	}
	tree, err := b.repo.WithoutTasks(s.Commit)
	if err != nil {
		t.Fatal(err)
	}
	at := gittest.Start()
	add(t, b.ledger, signed(t, b.signer, Run{
		Tree: tree, Commit: s.Commit, Check: "e2e", Def: c.Def(), Run: "check-run-7", Verdict: Passed, Started: at, Finished: at, Runner: "forge",
	}))
	if o := b.only(t, s, c); o.Verdict != Passed {
		t.Errorf("with the forge's verdict: %+v", o)
	}
}
