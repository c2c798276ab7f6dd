package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"greenward/internal/gittest"
	"greenward/internal/modeltest"
	"greenward/internal/proc"
)

// hold is how a run is held at a pace.
type hold struct {
	workers int
	lasts   time.Duration
	pace    float64 // landings an hour
	most    int     // tasks
}

// holdTurns is how many replies a task takes: a worker reads, writes and hands off.
// longestThought is less than what an idle connection is cut after.
const (
	holdTurns      = 10
	longestThought = 100 * time.Second
)

// script has so many workers think for as long as makes the pace, each as long as is
// drawn for it, until the time is over. Then nothing new is planned and nobody thinks
// any more. The first tasks of all take from one reply to all of them, or every worker
// would be ready at the same time.
func (h hold) script(over <-chan struct{}) modeltest.Func {
	mean := float64(h.workers) * float64(time.Hour) / h.pace / holdTurns
	draw := rand.New(rand.NewPCG(11, 1000)) //nolint:gosec // a draw
	var mu sync.Mutex
	titles := map[string]bool{}
	ended := func() bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	}
	return livesScript(func() int {
		if ended() {
			return 0
		}
		return h.most
	}, func(r modeltest.Request) modeltest.Reply {
		if r.Offers("verdict") {
			return killScript(r)
		}
		line, _, _ := strings.Cut(r.FirstUser(), "\n")
		_, title, _ := strings.Cut(line, ": ")
		n, err := strconv.Atoi(title[strings.LastIndexByte(title, ' ')+1:])
		if err != nil {
			n = h.workers // no task of ours: at its full length
		}
		mu.Lock()
		titles[title] = true
		first, thought := len(titles) <= h.workers, draw.ExpFloat64()*mean
		mu.Unlock()
		turn := r.Turns()
		if first {
			turn += n % (holdTurns - 1)
		}
		var reply modeltest.Reply
		switch {
		case turn < holdTurns-2:
			reply = modeltest.Use(modeltest.NewCall("search", map[string]any{"pattern": fmt.Sprintf("step %d of %s", turn, title)}))
		case !wrote(r):
			reply = modeltest.Use(modeltest.NewCall("write", map[string]any{"path": fmt.Sprintf("out/%s.txt", strings.ReplaceAll(title, " ", "-")), "content": title + "\n"}))
		default:
			reply = modeltest.Use(modeltest.NewCall("hand_off", map[string]any{"outcome": "done", "summary": title}))
		}
		if !ended() {
			reply.Latency = min(time.Duration(thought), longestThought)
		}
		return reply
	})
}

// wrote reports whether the worker has written its file.
func wrote(r modeltest.Request) bool {
	return slices.ContainsFunc(r.Messages, func(m modeltest.Message) bool {
		return slices.ContainsFunc(m.Calls, func(c modeltest.Call) bool { return c.Name == "write" })
	})
}

// A run goes on at its pace for as long as it is held there: each task is handed off
// once, and nothing is lost. With -args hold DURATION PACE, 300 workers at so many
// landings an hour; what landed in each ten minutes is told, and what memory it took.
func TestS11APaceIsHeldAndNothingIsLost(t *testing.T) {
	t.Parallel()
	h := hold{workers: 12, lasts: 5 * time.Second, pace: 40_000, most: 40}
	long := flag.Arg(0) == "hold"
	if long {
		lasts, err := time.ParseDuration(flag.Arg(1))
		pace, paceErr := strconv.ParseFloat(flag.Arg(2), 64)
		if err != nil || paceErr != nil || pace <= 0 {
			t.Fatalf("want -args hold DURATION PACE, not %q", flag.Args())
		}
		h = hold{workers: 300, lasts: lasts, pace: pace, most: math.MaxInt32}
	}
	over := make(chan struct{})
	p := newKillPlaceWith(t, h.script(over))
	gittest.Commit(t, p.hub, "main", "no checks", map[string]string{
		".greenward.yml": fmt.Sprintf("checks: none\nagents: {model: scripted, providers: [{url: %q, concurrency: %d}]}\n", p.host.Get("OPENAI_BASE_URL"), 2*h.workers),
	})
	began := time.Now()
	run, err := proc.Start(t.Context(), proc.Command{
		Name: p.program, Args: []string{"-C", p.hub, "run", "--workers", strconv.Itoa(h.workers), killGoal}, Dir: t.TempDir(), Timeout: h.lasts + 20*time.Minute,
		Env: p.host.Only("PATH", "HOME", "TMPDIR", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	read := make(chan error, 1)
	go func() { _, err := io.Copy(&out, run.Stdout); read <- err }()
	window := min(h.lasts, 10*time.Minute)
	for at := window; at <= h.lasts; at += window {
		<-time.After(time.Until(began.Add(at))) // the pace is one of real time
		t.Logf("after %s: %d MiB, %d files open", at, p.resident()>>20, p.descriptors())
	}
	close(over)
	result, err := run.Wait()
	if err := <-read; err != nil {
		t.Error(err)
	}
	if err != nil || !result.OK() {
		t.Fatalf("run: %v %v\n%s", result, err, out.String())
	}
	files := len(strings.Fields(gittest.Git(t, p.hub, "ls-tree", "--name-only", "main", "out/")))
	p.nothingLost(files)
	landed := make([]int, int(h.lasts/window))
	for line := range strings.Lines(gittest.Git(t, p.hub, "log", "main", "--first-parent", "--format=%ct %(trailers:key=Handoff,valueonly,separator=)") + "\n") {
		when, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		seconds, err := strconv.ParseInt(when, 10, 64)
		if at := int(time.Unix(seconds, 0).Sub(began) / window); err == nil && what == "done" && at >= 0 && at < len(landed) {
			landed[at]++
		}
	}
	sum := 0
	for i, n := range landed {
		sum += n
		t.Logf("%6s to %6s: %d landed, %.0f an hour", time.Duration(i)*window, time.Duration(i+1)*window, n, float64(n)/window.Hours())
	}
	rate := float64(sum) / (window * time.Duration(len(landed))).Hours()
	t.Logf("%d workers: %.0f landings an hour, held for %s; %d tasks in all, each handed off once", h.workers, rate, h.lasts, files)
	if long && rate < 1000 {
		t.Errorf("%.0f landings an hour, want 1,000", rate)
	}
}

// running are the processes of the program.
func (p *killPlace) running() []string {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		p.Fatal(err)
	}
	var ours []string
	for _, dir := range all {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err == nil && strings.Contains(string(line), "\x00"+p.hub+"\x00run\x00") {
			ours = append(ours, dir)
		}
	}
	return ours
}

// resident is the memory of the program, in bytes; 0 where the system does not say.
func (p *killPlace) resident() (bytes int) {
	for _, dir := range p.running() {
		var size, pages int
		text, err := os.ReadFile(filepath.Join(dir, "statm"))
		if _, scanErr := fmt.Sscan(string(text), &size, &pages); err == nil && scanErr == nil {
			bytes += pages * os.Getpagesize()
		}
	}
	return bytes
}

// descriptors is how many files the program has open.
func (p *killPlace) descriptors() (n int) {
	for _, dir := range p.running() {
		open, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err == nil {
			n += len(open)
		}
	}
	return n
}
