// Package git is greenward's only speaker of git.
//
// It owns names of refs, commit trailers, reading (in process, from git's files, else through go-git),
// writing objects, ref transactions, merging two commits, working copies, the
// hub and its remote, and ssh signatures over commits. It does not decide
// anything: which change lands, what green is and who holds a task belong to
// the packages above.
//
// Whatever moves a ref or copies objects between repositories is done by the
// git command, in a scrubbed environment: no system or global configuration,
// no hooks, no editor, no prompt, no automatic gc. go-git never writes.
package git
