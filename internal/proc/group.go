package proc

import "errors"

// ErrNoGroups is returned where this machine, or this user on it, has no control
// group to put a command into.
var ErrNoGroups = errors.New("no control groups to be had")

// Limits bound all processes of a Group together. Zero is no bound.
type Limits struct {
	Memory    int64   // bytes of RAM and of files in memory
	Processes int     // processes and threads alive at once
	CPUs      float64 // processors' worth of time: 1.5 is one and a half
	Weight    int     // share of a busy processor against others, which have 1024
	IO        int64   // bytes a second read from, and as many written to, the disk of IODir
	IODir     string  // any path on that disk
}
