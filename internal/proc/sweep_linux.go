package proc

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
)

// survivorsFor is how long Sweep waits for commands that may outlive their
// greenward.
const survivorsFor = 5 * time.Second

// Sweep kills every process that a dead greenward of this host left behind and
// waits a few seconds for its commands that may finish. It returns how many
// processes it killed. Commands of a living greenward, or of one on another
// host, are left alone.
func Sweep(ctx context.Context) (int, error) {
	until := time.Now().Add(survivorsFor)
	sweepGroups()
	killed := map[target]bool{}
	wait := time.Millisecond
	for {
		orphans, survivors := leftovers()
		for _, t := range orphans {
			t.signal(syscall.SIGKILL)
			killed[t] = true
		}
		if len(orphans)+survivors == 0 || time.Now().After(until) {
			return len(killed), nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return len(killed), fmt.Errorf("sweep: %w", context.Cause(ctx))
		case <-timer.C:
		}
		wait = min(2*wait, 50*time.Millisecond)
	}
}

// leftovers lists what dead greenwards of this host left, and counts those of
// it that may finish, or that can't be told yet.
func leftovers() (orphans []target, survivors int) {
	dead := map[Identity]bool{}
	stats := map[int]stat{}
	mark := map[int]bool{}
	above := map[int]bool{}
	for _, pid := range pids() {
		if s, ok := readStat(pid); ok {
			stats[pid] = s
		}
	}
	// Whoever started this process is not a leftover, whatever it carries.
	for pid := os.Getpid(); pid > 0 && !above[pid]; pid = stats[pid].parent {
		above[pid] = true
	}
	for pid, s := range stats {
		if above[pid] || s.dead() {
			continue
		}
		env, ok := environ(pid)
		if !ok {
			continue
		}
		if len(env) == 0 && s.settling { // in the middle of execve: look again
			survivors++
			continue
		}
		owner, survive, ok := ownerOf(env)
		if !ok {
			continue
		}
		if _, asked := dead[owner]; !asked {
			dead[owner] = !owner.Alive()
		}
		switch {
		case !dead[owner]:
		case survive:
			survivors++
		default:
			mark[pid] = true
		}
	}
	for pid := range mark {
		orphans = append(orphans, target{pid: pid, start: stats[pid].start})
	}
	return orphans, survivors
}

// ownerOf returns the greenward that the marker in an environment names.
func ownerOf(env []byte) (owner Identity, survive, ok bool) {
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if value, found := bytes.CutPrefix(entry, []byte(markerKey+"=")); found {
			return parseMarker(string(value))
		}
	}
	return Identity{}, false, false
}
