package main

import (
	"bytes"
	"cmp"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// greenKill is a hub whose green is taken through a story one command at a time,
// by the real binary.
type greenKill struct {
	*testing.T
	program string
	host    proc.Host
	bound   time.Duration // of one command; zero: a minute
}

// stage is one command of the story, on a hub that was prepared for it.
type stage struct {
	name    string
	args    []string
	prepare func(g *greenKill, hub string)
}

func greenStages() []stage {
	snapshot := []string{"green", "snapshot"}
	commit := func(files map[string]string) func(*greenKill, string) {
		return func(g *greenKill, hub string) { gittest.Commit(g.T, hub, "main", "more", files) }
	}
	return []stage{
		{"first", snapshot, func(*greenKill, string) {}},
		{"pure", snapshot, commit(map[string]string{"b": "1\n"})},
		{"repair", snapshot, func(g *greenKill, hub string) {
			gittest.Commit(g.T, hub, "main", "break it", map[string]string{"broken": "x\n"})
			gittest.Commit(g.T, hub, "main", "more", map[string]string{"c": "1\n"})
		}},
		{"carry", snapshot, commit(map[string]string{"d": "1\n"})},
		{"rollback", []string{"green", "rollback", "green~2"}, func(*greenKill, string) {}},
		{"held", snapshot, commit(map[string]string{"e": "1\n"})},
		{"released", snapshot, func(g *greenKill, hub string) { g.must(hub, "green", "release") }},
	}
}

func (g *greenKill) run(hub string, crash int, args ...string) (proc.Result, string) {
	g.Helper()
	host := g.host
	if crash > 0 {
		host = host.With("GREENWARD_TEST_CRASH=" + strconv.Itoa(crash))
	}
	var out bytes.Buffer
	result, err := proc.Run(g.Context(), proc.Command{
		Name: g.program, Args: append([]string{"-C", hub}, args...), Dir: g.TempDir(), Stdout: &out, Stderr: &out, Timeout: cmp.Or(g.bound, time.Minute),
		Env: host.Only("PATH", "HOME", "TMPDIR", "GREENWARD_TEST_CRASH"),
	})
	if err != nil {
		g.Fatal(err)
	}
	return result, out.String()
}

func (g *greenKill) must(hub string, args ...string) string {
	g.Helper()
	result, out := g.run(hub, 0, args...)
	if !result.OK() {
		g.Fatalf("%v: %v\n%s", args, result, out)
	}
	return out
}

// shape is all of a hub's state that must not depend on a kill: names and times
// of new commits do, since the clock is real.
func (g *greenKill) shape(hub string) string {
	g.Helper()
	ids := strings.Fields(gittest.Git(g.T, hub, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags", "refs/greenward"))
	for i, ref := range ids { // a repair is named after the snapshot alone
		ids[i] = ref + " " + gittest.Git(g.T, hub, "rev-parse", ref+"^{tree}")
	}
	return strings.Join([]string{
		strings.Join(ids, "\n"),
		gittest.Git(g.T, hub, "log", "--format=%s %T %(trailers:key=Repair,valueonly,separator=%x2c) %(trailers:key=Excludes,valueonly,separator=%x2c)", "--first-parent", "green"),
		gittest.Git(g.T, hub, "log", "--format=%s", "--glob=refs/greenward/control"),
		"decisions " + gittest.Git(g.T, hub, "rev-list", "--count", "refs/greenward/log/green"),
	}, "\n")
}

// check runs the unfinished command again and holds the end state.
func (g *greenKill) check(hub string, s stage, label, want string) {
	g.Helper()
	g.must(hub, s.args...)
	if s.name != "held" && s.name != "rollback" {
		g.must(hub, s.args...) // once more: nothing is done twice
	}
	got := g.shape(hub)
	// Only the subject of log commits names new commits; the shape leaves it out.
	if got != want {
		g.Errorf("%s: killed at %s:\n%s\nwant\n%s", s.name, label, got, want)
	}
	if result, out := g.run(hub, 0, "green", "verify"); !result.OK() {
		g.Errorf("%s: killed at %s: green verify: %s", s.name, label, out)
	}
	if files := gittest.Git(g.T, hub, "ls-tree", "--name-only", "green"); slices.Contains(strings.Fields(files), "broken") {
		g.Errorf("%s: killed at %s: green is red", s.name, label)
	}
	gittest.Git(g.T, hub, "fsck", "--strict", "--no-dangling")
}

func (g *greenKill) copyOf(hub string) string {
	g.Helper()
	to := filepath.Join(unmounted(g.T, g.TempDir()), "hub.git")
	if err := os.CopyFS(to, os.DirFS(hub)); err != nil {
		g.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(to, "greenward", "key"), 0o600); err != nil && !os.IsNotExist(err) {
		g.Fatal(err)
	}
	return to
}

// kill kills one command at its n-th durable effect; false: it ended before.
func (g *greenKill) kill(before string, s stage, n int, want string) bool {
	g.Helper()
	hub := g.copyOf(before)
	result, out := g.run(hub, n, s.args...)
	if result.Signal != "killed" {
		if !result.OK() {
			g.Fatalf("%s: %v\n%s", s.name, result, out)
		}
		return false
	}
	g.check(hub, s, "effect "+strconv.Itoa(n), want)
	return true
}

// killAt kills one command after a time, wherever it then is.
func (g *greenKill) killAt(before string, s stage, after time.Duration, want string) {
	g.Helper()
	hub := g.copyOf(before)
	p, err := proc.Start(g.Context(), proc.Command{
		Name: g.program, Args: append([]string{"-C", hub}, s.args...), Dir: g.TempDir(), Env: g.host.Only("PATH", "HOME", "TMPDIR"),
	})
	if err != nil {
		g.Fatal(err)
	}
	timer := time.NewTimer(after)
	<-timer.C
	p.Kill()
	if _, err := p.Wait(); err != nil {
		g.Fatal(err)
	}
	g.check(hub, s, after.String(), want)
}

// TestG48KilledAnywhereGreenEndsInTheSamePlace kills snapshot and rollback, with
// SIGKILL, at durable effects and at random moments, starts the same command
// again and compares the hub with one where nothing was killed. It takes a sample
// of 20; `go test ./cmd/greenward -run G48Killed -timeout 30m -args 200` takes 200.
func TestG48KilledAnywhereGreenEndsInTheSamePlace(t *testing.T) {
	t.Parallel()
	points := 20
	if n, err := strconv.Atoi(flag.Arg(0)); err == nil {
		points = n
	}
	g := &greenKill{T: t, program: filepath.Join(t.TempDir(), "greenward"), host: gittest.Host(t)}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, g.program); err != nil {
		t.Fatal(err)
	}
	hub := gittest.Bare(t)
	gittest.Commit(t, hub, "main", "begin", map[string]string{
		".greenward.yml": "checks: [{name: ok, run: test ! -e broken}]\ngreen: {repair: [revert], tags: none}\n", "a": "1\n",
	})
	seed := rand.New(rand.NewPCG(4, 8))
	type place struct {
		stage
		before, want string
		effects      int
		took         time.Duration
	}
	var places []place
	for _, s := range greenStages() {
		s.prepare(g, hub)
		for i, arg := range s.args { // by its full name: the same command again must mean the same
			if strings.HasPrefix(arg, "green~") {
				s.args[i] = gittest.Git(t, hub, "rev-parse", arg)
			}
		}
		p := place{stage: s, before: g.copyOf(hub)}
		began := time.Now()
		g.must(hub, s.args...)
		p.took, p.want = time.Since(began), g.shape(hub)
		places = append(places, p)
	}
	kills, timed := 0, 0
	for n := 1; kills < points; n++ {
		p := &places[seed.IntN(len(places))]
		if points >= 100 { // every effect of every stage, then random moments
			p = &places[n%len(places)]
			p.effects++
			if !g.kill(p.before, p.stage, p.effects, p.want) {
				g.killAt(p.before, p.stage, time.Duration(seed.Int64N(int64(p.took))), p.want)
				timed++
			}
			kills++
			continue
		}
		if g.kill(p.before, p.stage, 1+seed.IntN(12), p.want) {
			kills++
		}
		if n > 20*points {
			t.Fatalf("only %d kills", kills)
		}
	}
	t.Logf("killed at %d points, %d of them at random moments", kills, timed)
}
