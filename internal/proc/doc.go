// Package proc is the only part of greenward that starts processes. It owns
// their bounds: what environment they see, how long they may run, how much of
// their output is kept, and that nothing of their tree is left when they end.
// It also owns what a process is to others: an identity that tells whether its
// owner is dead, a lock file, and the clean-up after a dead greenward.
//
// It does not know git, checks or agents, and it reads no environment: that is
// handed in by main through Host.
//
// # How a tree is found
//
// Every command runs in a session of its own and carries the variable
// GREENWARD_PROC=<host>:<pid>:<start>:<n>, where the first three name the
// greenward process that started it and n the command. On Linux the tree is
// whoever is in that session, whoever carries that variable (a daemon that
// left the session still does), and all their descendants. They are signalled
// through a handle checked against pid and start time, so a number that was
// given to somebody else is never hit. A process that left the session, threw
// its environment away and lost its parent is not found: holding that back is
// the work of a sandbox. On other unixes only the process group is signalled.
package proc
