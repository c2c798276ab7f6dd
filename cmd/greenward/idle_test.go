package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"greenward/internal/gittest"
)

// counted puts a git before git's own that notes each time it is started, and gives
// how to list their commands.
func (p *killPlace) counted() func() []string {
	p.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		p.Fatal(err)
	}
	dir := p.TempDir()
	list := filepath.Join(dir, "started")
	if err := os.WriteFile(filepath.Join(dir, "git"), fmt.Appendf(nil, "#!/bin/sh\necho \"$*\" >>%s\nexec %s \"$@\"\n", list, git), 0o755); err != nil {
		p.Fatal(err)
	}
	p.host = p.host.With("PATH=" + dir + ":" + p.host.Get("PATH"))
	return func() []string {
		text, err := os.ReadFile(list)
		if err != nil && !os.IsNotExist(err) {
			p.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

// spent is the processor time of a process and of those of its children that ended.
func (p *killPlace) spent(one *process) time.Duration {
	p.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(one.Pid()) + "/stat")
	if err != nil {
		p.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	ticks := 0
	for _, f := range fields[11:15] { // utime, stime, cutime, cstime: hundredths of a second
		n, err := strconv.Atoi(f)
		if err != nil {
			p.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// A run in which nothing happens, because everybody waits for a model's answer, asks
// no model, starts next to no git and takes next to no processor time. What is
// measured goes from one renewal of its claim to another.
func TestIdleRunCostsNothing(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("NOT RUN: processor time is read from /proc")
	}
	script := &steeredScript{}
	p := newKillPlaceWith(t, script.reply)
	t.Cleanup(func() {
		for _, task := range []string{"a", "b", "c"} {
			close(script.gate("write file " + task))
		}
	})
	gits := p.counted()
	gittest.Commit(t, p.hub, "main", "policy", map[string]string{".greenward.yml": "checks: [{name: ok, run: 'true'}]\ngreen: {schedule: '@every 1s'}\nagents: {workers: 3, model: scripted}\n"})
	run := p.process(p.host, "-C", p.hub, "run", killGoal)
	beat := func() int {
		p.alive(run)
		for line := range strings.Lines(gittest.Git(t, p.hub, "for-each-ref", "--format=%(contents)", "refs/greenward/claims/write-what-the-tasks-name-*/_")) {
			if n, ok := strings.CutPrefix(line, "Beat: "); ok {
				beats, err := strconv.Atoi(strings.TrimSpace(n))
				if err != nil {
					t.Fatal(err)
				}
				return beats
			}
		}
		return 0
	}
	for strings.Count(script.worked(), "write") < 3 {
		p.alive(run)
	}
	quiet := func(from int) int { // waits for the next renewal
		for {
			if now := beat(); now > from {
				return now
			}
		}
	}
	first := quiet(beat()) // the last snapshot has been taken by then
	asked, started, cpu, at := script.asked(), len(gits()), p.spent(run), time.Now()
	quiet(quiet(first))
	took := time.Since(at)
	asked, cpu = script.asked()-asked, p.spent(run)-cpu
	began := gits()[started:]
	t.Logf("in %s: %d model calls, %d gits, %s of processor time", took.Round(time.Second), asked, len(began), cpu)
	if asked != 0 {
		t.Errorf("%d model calls while nothing happened", asked)
	}
	if len(began) > 12 { // renewals of four claims
		t.Errorf("%d gits while nothing happened: %q", len(began), began)
	}
	if cpu > took/50 {
		t.Errorf("%s of processor time in %s while nothing happened", cpu, took)
	}
}
