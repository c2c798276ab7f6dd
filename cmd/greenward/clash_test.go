package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"greenward/bot"
	"greenward/internal/git"
	"greenward/internal/gittest"
)

// What brought a conflict is the oldest commit of main that the head does not merge
// with: named by the change that landed, or by its id. It stays named while it lasts.
func TestClashNamesWhatBroughtIt(t *testing.T) {
	remote, dir := gittest.Bare(t), gittest.Bare(t)
	text := func(middle string) string { return "1\n2\n" + middle + "\n4\n5\n" }
	gittest.Commit(t, remote, "main", "begin", map[string]string{"a": text("3"), "b": "b\n"})
	gittest.Git(t, remote, "update-ref", "refs/heads/topic", "refs/heads/main")
	head := git.Hash(gittest.Commit(t, remote, "topic", "work", map[string]string{"a": text("mine")}))
	gittest.Git(t, remote, "update-ref", "refs/pull/7/head", string(head))
	for i := range 9 {
		gittest.Commit(t, remote, "main", fmt.Sprint("other ", i), map[string]string{"b": fmt.Sprint(i, "\n")})
	}
	gittest.Git(t, dir, "remote", "add", "origin", remote)
	hub, err := git.OpenHub(t.Context(), git.HubInput{Dir: dir, Remote: "origin", Host: gittest.Host(t)})
	if err != nil {
		t.Fatal(err)
	}
	x := &botClashes{crew: &crew{engines: &engines{place: &place{hub: hub, main: "refs/heads/main"}}}}
	look := func() bot.Clash {
		t.Helper()
		gittest.Git(t, dir, "fetch", "-q", "-f", remote, "refs/heads/main:refs/heads/main")
		c, err := x.Clash(t.Context(), "refs/pull/7/head", head)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := look(); len(c.Paths) != 0 {
		t.Fatalf("it merges: %+v", c)
	}
	gittest.Commit(t, remote, "main", "theirs\n\nChange: pr-3@0123456789ab", map[string]string{"a": text("theirs")})
	for i := range 7 {
		gittest.Commit(t, remote, "main", fmt.Sprint("more ", i), map[string]string{"b": fmt.Sprint("more ", i, "\n")})
	}
	for range 2 { // and for one that has forgotten
		if c := look(); strings.Join(c.Paths, " ") != "a" || c.With != "pr-3@0123456789ab" {
			t.Fatalf("found %+v", c)
		}
		x.known = nil
	}
	gittest.Commit(t, remote, "main", "back", map[string]string{"a": text("3")})
	if c := look(); len(c.Paths) != 0 || c.With != "" {
		t.Fatalf("it merges again: %+v", c)
	}
	third := gittest.Commit(t, remote, "main", "by hand", map[string]string{"a": text("by hand")})
	if c := look(); c.With != third[:12] && c.With != "pr-3@0123456789ab" {
		t.Fatalf("found %+v", c)
	}
	gittest.Git(t, remote, "update-ref", "refs/pull/7/head", third)
	x.known = nil
	if _, err := x.Clash(t.Context(), "refs/pull/7/head", head); err == nil || !strings.Contains(err.Error(), bot.ErrMoved.Error()) {
		t.Fatalf("another head: %v", err)
	}
}

// Q07: two heads change the same when their files are equal and those of main that they
// fork from too. The same files on a newer main take back what main got since.
func TestQ07SameContentIsOfFilesAndOfTheirBase(t *testing.T) {
	remote, dir := gittest.Bare(t), gittest.Bare(t)
	gittest.Commit(t, remote, "main", "begin", map[string]string{"a": "1\n"})
	gittest.Git(t, remote, "update-ref", "refs/heads/topic", "refs/heads/main")
	was := gittest.Commit(t, remote, "topic", "work", map[string]string{"b": "1\n"})
	amended := gittest.Commit(t, remote, "topic", "the same in another commit", map[string]string{"b": "1\n"})
	gittest.Commit(t, remote, "main", "goes on", map[string]string{"a": "2\n"})
	gittest.Git(t, remote, "update-ref", "refs/heads/back", "refs/heads/main")
	back := gittest.Commit(t, remote, "back", "takes main back", map[string]string{"a": "1\n", "b": "1\n"})
	gittest.Git(t, dir, "remote", "add", "origin", remote)
	gittest.Git(t, dir, "fetch", "-q", remote, "refs/heads/main:refs/heads/main", was)
	hub, err := git.OpenHub(t.Context(), git.HubInput{Dir: dir, Remote: "origin", Host: gittest.Host(t)})
	if err != nil {
		t.Fatal(err)
	}
	q := &botQueue{crew: &crew{engines: &engines{place: &place{hub: hub, main: "refs/heads/main"}}}}
	for next, want := range map[string]bool{amended: true, back: false} {
		gittest.Git(t, remote, "update-ref", "refs/pull/7/head", next)
		same, err := q.Same(t.Context(), "refs/pull/7/head", git.Hash(was), git.Hash(next))
		if err != nil || same != want {
			t.Errorf("%s: %v, want %v; %v", next[:12], same, want, err)
		}
	}
	if tree := gittest.Git(t, remote, "rev-parse", was+"^{tree}"); tree != gittest.Git(t, remote, "rev-parse", back+"^{tree}") {
		t.Error("the test shows nothing: the files differ")
	}
	if _, err := q.Same(t.Context(), "refs/pull/7/head", git.Hash(was), git.Hash(was)); !errors.Is(err, bot.ErrMoved) {
		t.Errorf("another head: %v", err)
	}
}
