package agents

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// TestA06NothingOfAFailedTryIsLeft: a workspace that is used again, for the same
// task on a newer main or by the agent's next life, holds main's files and nothing
// that the last try made.
func TestA06NothingOfAFailedTryIsLeft(t *testing.T) {
	for name, spoil := range map[string]string{
		"changed, new and gone files": `echo spoilt >README.md; mkdir -p d && echo new >d/new; rm -f lib/a.txt; git add -A`,
		"another mode":                `chmod +x README.md`,
		"a link for a folder":         `rm -rf lib && ln -s /tmp lib`,
		"a repository of its own":     `git init -q nested && echo x >nested/x && git -C nested add x`,
		"hidden from git":             `git update-index --skip-worktree README.md && git update-index --assume-unchanged lib/a.txt && echo spoilt >README.md && echo spoilt >lib/a.txt`,
		"in the middle of a merge":    `git checkout -qb side && echo side >README.md && git commit -qam side && git checkout -q work && echo mine >README.md && git commit -qam mine; git merge -q side; true`,
		"an exclude of its own":       `mkdir -p .git/info && echo hidden >>.git/info/exclude; echo x >hidden`,
		"settings and hooks":          `git config core.fileMode false; git config filter.x.clean "touch ran"; mkdir -p .git/hooks; printf '#!/bin/sh\ntouch ran\n' >.git/hooks/post-checkout; chmod +x .git/hooks/post-checkout`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"lib/a.txt": "a\n"})
			ws := w.workspace(w.workspaces(), "worker-1")
			result, err := proc.Run(t.Context(), proc.Command{Name: "sh", Args: []string{"-c", spoil}, Dir: ws.Dir(), Env: CommandEnv(w.host, t.TempDir())})
			if err != nil || !result.OK() {
				t.Fatal(result, err)
			}
			newest := w.commit("a peer", map[string]string{"lib/b.txt": "b\n"})
			if err := ws.Rebase(t.Context(), newest); err != nil {
				t.Fatal(err)
			}
			w.pristine(ws)
			w.die(ws)
			next := w.workspace(w.workspaces(), "worker-1")
			w.pristine(next)
			if err := next.Remove(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// pristine fails unless a workspace holds its base's files, and no others.
func (w *world) pristine(ws *Workspace) {
	w.Helper()
	if got := gittest.Git(w, ws.Dir(), "status", "--porcelain=v2", "--ignored", "--untracked-files=all"); got != "" {
		w.Errorf("not clean:\n%s", got)
	}
	if got := gittest.Git(w, ws.Dir(), "rev-parse", "HEAD"); got != string(ws.Base) {
		w.Errorf("HEAD is %s, not the base %s", got, ws.Base)
	}
	want := strings.Fields(w.git("ls-tree", "-r", "--name-only", string(ws.Base)))
	for _, name := range want {
		if got, err := os.ReadFile(filepath.Join(ws.Dir(), name)); err != nil || strings.TrimSpace(string(got)) != w.show(string(ws.Base), name) {
			w.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	inside, err := os.ReadDir(ws.Dir())
	if err != nil {
		w.Fatal(err)
	}
	top := map[string]bool{".git": true}
	for _, name := range want {
		first, _, _ := strings.Cut(name, "/")
		top[first] = true
	}
	for _, entry := range inside {
		if !top[entry.Name()] {
			w.Errorf("left over: %s", entry.Name())
		}
	}
}

// TestA18LivenessIsNoName: a worker's command that calls itself something else is
// alive while its claim and its register say so: nothing takes its workspace, its
// claim or its life.
func TestA18LivenessIsNoName(t *testing.T) {
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("NOT RUN: bash is not installed, and without it no command can choose its own name")
	}
	w := newWorld(t, nil)
	task := w.addTask(Task{ID: "run/a"})
	dir := t.TempDir()
	working, goOn := filepath.Join(dir, "working"), filepath.Join(dir, "go-on")
	for _, fifo := range []string{working, goOn} {
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	body := `exec -a "[kworker/u8:0]" sh -c 'echo made >a.txt; echo >` + working + `; cat ` + goOn + ` >/dev/null'`
	worker := w.worker(&CommandMind{Argv: []string{"/bin/bash", "-c", body}})
	claim, err := worker.Claims.Acquire(t.Context(), task.ID, worker.Agent)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	var ending Ending
	go func() {
		var err error
		ending, err = worker.Do(t.Context(), task, claim)
		ended <- err
	}()
	if _, err := os.ReadFile(working); err != nil { // until the command works
		t.Fatal(err)
	}
	if refs, err := w.workspaces().Sweep(t.Context()); err != nil || len(refs) != 0 {
		t.Errorf("swept %v, %v", refs, err)
	}
	if pruned, err := worker.Claims.Prune(t.Context(), worker.Main); err != nil || pruned != 0 {
		t.Errorf("%d claims pruned, %v", pruned, err)
	}
	if _, err := worker.Claims.Take(t.Context(), task.ID, "worker-2"); err == nil {
		t.Error("another took the task of a living worker")
	}
	if err := os.WriteFile(goOn, []byte("go on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || ending.Outcome != Done || w.show("main", "a.txt") != "made" {
		t.Errorf("%+v, %v", ending, err)
	}
}

// TestA23LocksOfTheDeadAlone: the index.lock of a worker killed in mid-commit goes
// with its rescue; that of a living one stays, and who only looks needs none.
func TestA23LocksOfTheDeadAlone(t *testing.T) {
	w := newWorld(t, nil)
	ws := w.workspace(w.workspaces(), "worker-1")
	write(t, ws.Dir(), "new.txt", "new\n")
	gittest.Git(t, ws.Dir(), "add", "new.txt")
	lock := filepath.Join(ws.Dir(), ".git", "index.lock")
	write(t, filepath.Dir(lock), "index.lock", "half an index")
	if refs, err := w.workspaces().Sweep(t.Context()); err != nil || len(refs) != 0 {
		t.Errorf("a living worker's work was swept: %v, %v", refs, err)
	}
	if _, err := w.workspaces().Open(t.Context(), WorkspaceInput{Run: "run", Agent: "worker-1", Task: "run/a", Base: w.main()}); !errors.Is(err, ErrBusy) {
		t.Errorf("opened a living worker's workspace: %v", err)
	}
	if head, err := ws.Head(t.Context()); err != nil || head != ws.Base {
		t.Errorf("HEAD behind a lock: %s, %v", head, err)
	}
	if _, err := ws.Snapshot(t.Context()); err != nil {
		t.Errorf("its files behind a lock: %v", err)
	}
	if got, err := os.ReadFile(lock); err != nil || string(got) != "half an index" {
		t.Errorf("the living worker's lock: %q, %v", got, err)
	}
	w.die(ws)
	refs, err := w.workspaces().Sweep(t.Context())
	if err != nil || len(refs) != 1 || w.show(string(refs[0]), "new.txt") != "new" {
		t.Errorf("rescued %v, %v", refs, err)
	}
	w.noWorkspaceLeft()
}

// TestA25KilledInARebase: what a worker had when it died in the middle of a rebase
// is kept, from both sides of it, and the next life begins on main.
func TestA25KilledInARebase(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "one\n"})
	ws := w.workspace(w.workspaces(), "worker-1")
	rebasing := `git config user.name x; git config user.email x@y
echo base >a.txt; git commit -qam base; git branch onto
git reset -q --hard HEAD~1; echo first >b.txt; git add b.txt; git commit -qm first
echo mine >a.txt; git commit -qam second; ! git rebase -q onto >/dev/null 2>&1; echo half >a.txt; test -d .git/rebase-merge`
	result, err := proc.Run(t.Context(), proc.Command{Name: "sh", Args: []string{"-c", rebasing}, Dir: ws.Dir(), Env: CommandEnv(w.host, t.TempDir())})
	if err != nil || !result.OK() {
		t.Fatal(result, err)
	}
	w.die(ws)
	next := w.workspace(w.workspaces(), "worker-1")
	w.pristine(next)
	if got := gittest.Git(t, next.Dir(), "symbolic-ref", "HEAD"); got != "refs/heads/work" {
		t.Errorf("HEAD is %s", got)
	}
	saved, err := ListRescued(w.hub.Repo, "run/a")
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]bool{}
	for _, one := range saved {
		for commit := range strings.FieldsSeq(w.git("rev-list", string(one.Commit), "^main")) {
			kept[w.git("log", "-1", "--format=%s", commit)+": "+w.git("show", commit+":a.txt")] = true
		}
	}
	for _, want := range []string{"base: base", "second: mine", "rescue run/a: half"} {
		if !kept[want] {
			t.Errorf("%q is lost; kept %v", want, kept)
		}
	}
	if err := next.Remove(); err != nil {
		t.Fatal(err)
	}
}
