package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// landKill is a hub in which very many changes wait, and the program that lands them.
type landKill struct {
	*greenKill
	hub     string
	changes int
	stray   int // changes that must be ejected: they all meet at one line
}

// newLandKill makes the changes by one git: one file each but for every 40th,
// which changes the same line as the others of its kind do.
func newLandKill(t *testing.T, changes int) *landKill {
	t.Helper()
	k := &landKill{greenKill: &greenKill{T: t, program: filepath.Join(t.TempDir(), "greenward"), host: gittest.Host(t), bound: 20 * time.Minute}, hub: gittest.Bare(t), changes: changes}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, k.program); err != nil {
		t.Fatal(err)
	}
	base := gittest.Commit(t, k.hub, "main", "begin", map[string]string{"meet.txt": "begin\nhere\nend\n", "a.txt": "a\n"})
	var in strings.Builder
	for i := range changes {
		file, text := fmt.Sprintf("d%d/f%d.txt", i%37, i), fmt.Sprintf("change %d\n", i)
		if i%40 == 39 {
			if file, text = "meet.txt", fmt.Sprintf("begin\n%d\nend\n", i); i > 40 {
				k.stray++
			}
		}
		fmt.Fprintf(&in, "commit refs/heads/queue/c%05d\ncommitter Ada <ada@example.com> %d +0000\ndata 7\nchange\nfrom %s\nM 100644 inline %s\ndata %d\n%s\n",
			i, gittest.Start().Unix()+int64(i), base, file, len(text), text)
	}
	result, err := proc.Run(t.Context(), proc.Command{
		Name: "git", Args: []string{"fast-import", "--quiet"}, Dir: k.hub, Stdin: strings.NewReader(in.String()), Env: append(k.host.Only("PATH"), "GIT_DIR="+k.hub), Timeout: time.Minute,
	})
	if err != nil || !result.OK() {
		t.Fatalf("fast-import: %v, %v", result, err)
	}
	return k
}

// decided counts what the log says of each entry.
func (k *landKill) decided() (landed, ejected map[string]int) {
	k.Helper()
	landed, ejected = map[string]int{}, map[string]int{}
	for line := range strings.Lines(gittest.Git(k.T, k.hub, "for-each-ref", "--format=%(refname)", "refs/greenward/log/queue")) {
		for line := range strings.Lines(gittest.Git(k.T, k.hub, "log", "--format=%b", strings.TrimSpace(line))) {
			var d struct{ Entry, State string }
			if !strings.HasPrefix(line, "{") {
				continue
			}
			if err := json.Unmarshal([]byte(line), &d); err != nil {
				k.Fatal(err)
			}
			switch d.State {
			case "landed":
				landed[d.Entry]++
			case "ejected":
				ejected[d.Entry]++
			default:
				k.Errorf("%s is %s", d.Entry, d.State)
			}
		}
	}
	return landed, ejected
}

// holds checks that every change landed once, or was refused once, and that git
// and both proofs of greenward agree.
func (k *landKill) holds() {
	k.Helper()
	landed, ejected := k.decided()
	if len(landed) != k.changes-k.stray || len(ejected) != k.stray {
		k.Errorf("%d landed and %d ejected of %d changes, %d of them in conflict", len(landed), len(ejected), k.changes, k.stray)
	}
	for entry, n := range landed {
		if n != 1 || ejected[entry] != 0 {
			k.Errorf("%s landed %d times and was ejected %d times", entry, n, ejected[entry])
		}
	}
	onMain := map[string]int{}
	for entry := range strings.FieldsSeq(gittest.Git(k.T, k.hub, "log", "main", "--format=%(trailers:key=Change,valueonly)")) {
		if onMain[entry]++; onMain[entry] > 1 || landed[entry] != 1 {
			k.Errorf("%s is on main %d times, and %d times in the log", entry, onMain[entry], landed[entry])
		}
	}
	if len(onMain) != len(landed) {
		k.Errorf("%d changes on main, %d landed", len(onMain), len(landed))
	}
	if files := strings.Fields(gittest.Git(k.T, k.hub, "ls-tree", "-r", "--name-only", "main")); len(files) != 2+k.changes-k.changes/40 {
		k.Errorf("main has %d files", len(files))
	}
	if left := gittest.Git(k.T, k.hub, "for-each-ref", "refs/heads/queue/"); left != "" {
		k.Errorf("still waiting: %s", left)
	}
	k.must(k.hub, "audit")
	k.must(k.hub, "fsck")
	gittest.Git(k.T, k.hub, "fsck", "--strict", "--no-dangling")
}

// TestQ40KilledAnywhereWhileThousandsLand kills the lander with SIGKILL, at a
// durable effect or at any moment, starts it again, and so on: every change lands
// once. Every other life moves the refs for each change by itself. A plain run kills 50 times while 500 changes land; `go test ./cmd/greenward
// -run Q40Killed -timeout 60m -args 500` kills 500 times while 5,000 do.
func TestQ40KilledAnywhereWhileThousandsLand(t *testing.T) {
	t.Parallel()
	points := 50
	if n, err := strconv.Atoi(flag.Arg(0)); err == nil {
		points = n
	}
	k := newLandKill(t, 10*points)
	seed := rand.New(rand.NewPCG(4, 0))
	timed := 0
	ways := [][]string{{"land"}, {"land", "--each"}}
	for kills := 0; kills < points; kills++ {
		landed, ejected := k.decided()
		behind := k.changes*kills*8/points/10 - len(landed) - len(ejected) // a life lands a batch or two
		if behind > 0 && seed.IntN(3) == 0 {
			timed++
			k.killAfter(time.Duration(seed.Int64N(int64(300*time.Millisecond))), ways[kills%2])
			continue
		}
		crash := 1 // nothing lands before the first effect
		if behind > 0 {
			crash += seed.IntN(14)
		}
		result, out := k.run(k.hub, crash, ways[kills%2]...)
		if result.Signal != "killed" {
			t.Fatalf("after %d kills: %v\n%s", kills, result, out)
		}
	}
	landed, ejected := k.decided()
	t.Logf("killed %d times, %d of them at random moments, while %d changes landed", points, timed, len(landed))
	if len(landed) == 0 || len(landed)+len(ejected) == k.changes {
		t.Errorf("%d landed before the last kill: it was not spread over the run", len(landed))
	}
	k.must(k.hub, "land")
	k.holds()
	if out := k.must(k.hub, "land", "--json"); !strings.Contains(out, `"entries":[]`) {
		t.Errorf("a second call decides again: %s", out)
	}
}

// killAfter kills a lander and the gits that it started after a time.
func (k *landKill) killAfter(after time.Duration, args []string) {
	k.Helper()
	p, err := proc.Start(k.Context(), proc.Command{
		Name: k.program, Args: append([]string{"-C", k.hub}, args...), Dir: k.TempDir(), Env: k.host.Only("PATH", "HOME", "TMPDIR"),
	})
	if err != nil {
		k.Fatal(err)
	}
	<-time.After(after)
	p.Kill()
	if _, err := p.Wait(); err != nil {
		k.Fatal(err)
	}
}
