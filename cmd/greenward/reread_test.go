package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greenward/internal/gittest"
)

// gatedShop has a gated queue whose check runs until the test says that it may end.
func gatedShop(t *testing.T) (s *shop, begun func() bool, end func()) {
	t.Helper()
	s = openShop(t)
	flag := filepath.Join(t.TempDir(), "flag")
	began := flag + ".began"
	gittest.Commit(t, s.remote, "main", "gated", map[string]string{
		".greenward.yml": fmt.Sprintf("checks:\n  - {name: slow, run: 'touch %[1]s.began; while ! test -e %[1]s; do sleep 0.05; done; ! test -e broken'}\nqueue: {policy: gated}\ngreen: {schedule: '0 0 1 1 *'}\n", flag),
	})
	touch := func() {
		if err := os.WriteFile(flag, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(touch)
	return s, func() bool { _, err := os.Stat(began); return err == nil }, touch
}

// approved is a pull request whose check runs.
func (s *shop) approved(begun func() bool) (number int, head string) {
	s.Helper()
	gittest.Git(s.T, s.remote, "update-ref", "refs/heads/topic", "refs/heads/main")
	head = gittest.Commit(s.T, s.remote, "topic", "work", map[string]string{"new": "1\n"})
	number = s.gh.Pull(s.alice, head, "main")
	s.serve()
	s.ahead.Store(5)
	s.gh.Comment(s.alice, number, "bors r+ "+head)
	s.deliver("issue_comment", fmt.Sprintf(`{"action":"created","repository":{"full_name":"acme/widgets"},"issue":{"number":%d}}`, number))
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for late := time.After(2 * time.Minute); !begun(); {
		select {
		case <-late:
			s.Fatalf("its check never began; comments %+v", s.gh.Comments(number))
		case <-look.C:
		}
	}
	return number, head
}

// Q05, H05, Q01: a push, another base, or a close while the checks run, each with its
// webhook lost: GitHub is read once more before anything lands, and nothing does.
func TestQ05H05ReadAgainBeforeItLands(t *testing.T) {
	for name, change := range map[string]func(s *shop, n int){
		"push": func(s *shop, n int) {
			s.gh.Push(n, gittest.Commit(s.T, s.remote, "topic", "evil", map[string]string{"new": "2\n"}))
		},
		"retarget": func(s *shop, n int) { s.gh.Retarget(n, "release") },
		"close":    func(s *shop, n int) { s.gh.Close(n) },
		"draft":    func(s *shop, n int) { s.gh.Draft(n, true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, begun, end := gatedShop(t)
			n, _ := s.approved(begun)
			before := gittest.Git(t, s.remote, "rev-parse", "main")
			change(s, n)
			end()
			s.until("the withdrawal", s.says(n, "was withdrawn"))
			if after := gittest.Git(t, s.hub, "rev-parse", "main"); after != before {
				t.Errorf("it landed: %s", gittest.Git(t, s.hub, "log", "--oneline", "-3", "main"))
			}
		})
	}
}

// H35: main moved while the checks ran: the change is merged again onto the new main and
// checked again, and lands on top of what came first.
func TestH35BaseMovedIsMergedAndCheckedAgain(t *testing.T) {
	t.Parallel()
	s, begun, end := gatedShop(t)
	n, head := s.approved(begun)
	rival := gittest.Commit(t, s.remote, "main", "a person pushes", map[string]string{"rival": "1\n"})
	end()
	s.until("the landing", s.says(n, "landed as"))
	// What landed reaches the remote with the next exchange.
	(&forge{T: t, release: func() {}}).until("main on GitHub", func() bool {
		return strings.Contains(gittest.Git(t, s.remote, "log", "--format=%H", "main"), head)
	})
	if log := gittest.Git(t, s.remote, "log", "--format=%H", "main"); !strings.Contains(log, rival) {
		t.Errorf("the rival's commit is lost:\n%s", log)
	}
	if files := gittest.Git(t, s.remote, "ls-tree", "--name-only", "main"); !strings.Contains(files, "rival") || !strings.Contains(files, "new") {
		t.Errorf("main has %s", files)
	}
}

// Q22: a server that refuses the push of main is quoted word for word where people look;
// what landed is kept, nothing more lands on top in vain, and it goes on by itself.
func TestQ22RefusedPushIsQuotedAndNothingIsLost(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	refuse := filepath.Join(s.remote, "hooks", "pre-receive")
	if err := os.MkdirAll(filepath.Dir(refuse), 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nwhile read old new ref; do test $ref != refs/heads/main || { echo 'error: GH006: Required status check \"ci/pr-only\" is expected.'; exit 1; }; done\n"
	if err := os.WriteFile(refuse, []byte(script), 0o755); err != nil { //nolint:gosec // git runs it
		t.Fatal(err)
	}
	gittest.Git(t, s.remote, "config", "core.hooksPath", filepath.Dir(refuse))
	gittest.Git(t, s.remote, "update-ref", "refs/heads/topic", "refs/heads/main")
	head := gittest.Commit(t, s.remote, "topic", "work", map[string]string{"new": "1\n"})
	n := s.gh.Pull(s.alice, head, "main")
	s.serve()
	s.ahead.Store(5)
	s.gh.Comment(s.alice, n, "bors r+ "+head)
	s.deliver("issue_comment", fmt.Sprintf(`{"action":"created","repository":{"full_name":"acme/widgets"},"issue":{"number":%d}}`, n))
	s.until("the server's words", func() bool {
		return s.says(n, "GitHub does not have it yet")() && s.says(n, `Required status check "ci/pr-only" is expected`)()
	})
	if page := s.get("/"); !strings.Contains(page, "The queue is held") || !strings.Contains(page, "ci/pr-only") {
		t.Errorf("the page: %s", page)
	}
	if err := os.Remove(refuse); err != nil {
		t.Fatal(err)
	}
	(&forge{T: t, release: func() {}}).until("main on GitHub", func() bool {
		return strings.Contains(gittest.Git(t, s.remote, "log", "--format=%H", "main"), head)
	})
	s.until("the words are gone", func() bool {
		return s.says(n, "landed as")() && !s.says(n, "GitHub does not have it yet")()
	})
}
