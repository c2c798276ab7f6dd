package agents

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

// use calls a tool and gives what the model would read.
func (w *world) use(box *toolbox, name, arguments string) string {
	w.Helper()
	list, err := box.workspace.Tools()
	if err != nil {
		w.Fatal(err)
	}
	for _, tool := range list {
		if tool.Name == name {
			result, err := tool.Run(w.Context(), json.RawMessage(arguments))
			if err != nil {
				w.Fatal(err)
			}
			return result.Text
		}
	}
	w.Fatalf("there is no tool %s", name)
	return ""
}

// all that greenward does with a workspace, in the order of a task that conflicts.
func (w *world) handle(all *Workspaces, ws *Workspace) []git.Ref {
	w.Helper()
	ctx := w.Context()
	_, headErr := ws.Head(ctx) // may well be unreadable by now
	if _, err := ws.Snapshot(ctx); err != nil {
		w.Error(err)
	}
	if _, err := ws.Ls(ctx); err != nil {
		w.Error(err)
	}
	if _, err := ws.Unmerged(ctx); err != nil {
		w.Error(err)
	}
	saved, err := ws.Rescue(ctx)
	if err != nil {
		w.Errorf("rescue: %v (head: %v)", err, headErr)
	}
	if err := ws.Rebase(ctx, w.main()); err != nil {
		w.Error(err)
	}
	w.die(ws)
	if _, err := all.Sweep(ctx); err != nil {
		w.Error(err)
	}
	w.noWorkspaceLeft()
	return saved
}

// Whatever an agent writes into its .git, no git of greenward runs it, follows it
// out, or waits for it; and its files are saved all the same.
func TestHostileRepositoryIsOnlyData(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir, ran, outside string){
		"programs in the configuration": func(t *testing.T, dir, ran, _ string) {
			t.Helper()
			run := "touch " + ran + "; cat"
			for key, value := range map[string]string{
				"filter.x.clean": run, "filter.x.smudge": run, "filter.x.process": run, "diff.external": run, "diff.x.textconv": run, "diff.x.command": run,
				"merge.x.driver": run, "core.fsmonitor": run, "core.sshCommand": run, "core.pager": run, "core.editor": run, "core.hooksPath": filepath.Join(dir, "hooks"),
				"credential.helper": "!" + run, "uploadpack.packObjectsHook": run, "remote.origin.uploadpack": run, "remote.origin.receivepack": run,
				"remote.origin.url": dir, "extensions.partialClone": "origin", "core.repositoryFormatVersion": "1", "remote.origin.promisor": "true", "gpg.program": run,
				"commit.gpgSign": "true", "alias.add": "!" + run, "url." + dir + ".insteadOf": "/", "core.alternateRefsCommand": run,
			} {
				gittest.Git(t, dir, "config", key, value)
			}
			write(t, dir, ".gitattributes", "* filter=x diff=x merge=x\n")
			if err := os.MkdirAll(filepath.Join(dir, "hooks"), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, hook := range []string{"pre-commit", "post-checkout", "pre-push", "reference-transaction", "post-index-change"} {
				if err := os.WriteFile(filepath.Join(dir, "hooks", hook), []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		},
		"a submodule with programs": func(t *testing.T, dir, ran, _ string) {
			t.Helper()
			sub := filepath.Join(dir, "sub")
			if err := os.MkdirAll(sub, 0o755); err != nil {
				t.Fatal(err)
			}
			gittest.Git(t, sub, "init", "-q")
			write(t, sub, "f", "x\n")
			gittest.Git(t, sub, "add", ".")
			gittest.Git(t, sub, "commit", "-qm", "in it")
			gittest.Git(t, dir, "add", "sub")
			gittest.Git(t, sub, "config", "filter.x.clean", "touch "+ran+"; cat")
			gittest.Git(t, sub, "config", "core.fsmonitor", "touch "+ran)
			write(t, sub, ".gitattributes", "* filter=x\n")
			write(t, sub, "f", "y\n")
		},
		"a HEAD that is a pipe": func(t *testing.T, dir, _, _ string) {
			t.Helper()
			head := filepath.Join(dir, ".git", "HEAD")
			if err := os.Remove(head); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(head, 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"links that lead out": func(t *testing.T, dir, _, outside string) {
			t.Helper()
			for _, name := range []string{"index", "refs/heads/work", "config"} {
				path := filepath.Join(dir, ".git", name)
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(filepath.Join(outside, "sentinel"), path); err != nil {
					t.Fatal(err)
				}
			}
		},
		"a .git that is elsewhere": func(t *testing.T, dir, _, outside string) {
			t.Helper()
			if err := os.Rename(filepath.Join(dir, ".git"), filepath.Join(outside, "moved")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(outside, "moved"), filepath.Join(dir, ".git")); err != nil {
				t.Fatal(err)
			}
		},
		"objects of somebody else": func(t *testing.T, dir, _, outside string) {
			t.Helper()
			gittest.Git(t, outside, "init", "-q")
			write(t, outside, "secret", "SECRET\n")
			gittest.Git(t, outside, "add", ".")
			gittest.Git(t, outside, "commit", "-qm", "secret")
			write(t, dir, ".git/objects/info/alternates", filepath.Join(outside, ".git", "objects")+"\n")
			write(t, dir, ".git/refs/heads/work", gittest.Git(t, outside, "rev-parse", "HEAD")+"\n")
		},
		"garbage": func(t *testing.T, dir, _, _ string) {
			t.Helper()
			write(t, dir, ".git/index", "garbage")
			write(t, dir, ".git/packed-refs", strings.Repeat("garbage\n", 1000))
			write(t, dir, ".git/HEAD", "ref: ../../../../etc/passwd\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			all := w.workspaces()
			ws := w.workspace(all, "worker-1")
			outside, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
			write(t, outside, "sentinel", "untouched\n")
			write(t, ws.Dir(), "new.txt", "new\n")
			spoil(t, ws.Dir(), ran, outside)
			if err := os.RemoveAll(ran); err != nil { // the agent's own git may run what it likes
				t.Fatal(err)
			}
			done := make(chan []git.Ref, 1)
			go func() { done <- w.handle(all, ws) }()
			select {
			case saved := <-done:
				if len(saved) == 0 || w.show(string(saved[0]), "new.txt") != "new" {
					t.Errorf("saved %v", saved)
				}
				for _, ref := range saved {
					if names := w.git("ls-tree", "-r", "--name-only", string(ref)); strings.Contains(names, "secret") {
						t.Errorf("%s holds another repository's files: %s", ref, names)
					}
				}
			case <-time.After(time.Minute):
				t.Fatal("greenward waits for what the agent left")
			}
			if exists(ran) {
				t.Error("a program of the agent ran outside of its workspace")
			}
			if data, err := os.ReadFile(filepath.Join(outside, "sentinel")); err != nil || string(data) != "untouched\n" {
				t.Errorf("the sentinel: %q, %v", data, err)
			}
			w.git("fsck", "--connectivity-only")
		})
	}
}
