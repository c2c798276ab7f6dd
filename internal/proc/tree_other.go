//go:build unix && !linux

package proc

import (
	"syscall"
	"time"
)

// attributes puts a command into a session, and so a process group, of its own.
func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// awaitExit is not offered here: the child is reaped first and its group
// killed after.
func awaitExit(int) bool { return false }

// signalGroup signals the process group that pid leads or led.
func signalGroup(pid int, sig syscall.Signal) {
	// The only error is that nobody is left in the group.
	_ = syscall.Kill(-pid, sig)
}

// target is one process of a tree; none are listed here.
type target struct{}

func (target) signal(syscall.Signal) {}

// moment is when a command began; nothing is asked of it here.
type moment struct{ at time.Time }

func now() moment { return moment{at: time.Now()} }

func tree(string, int, moment, *Group, map[target]bool) []target { return nil }
