// Package journal owns what greenward writes down about its own decisions: the
// logs of the queue and of green (refs whose empty-tree commits carry one JSON
// line a decision), the control ref through which people steer from any clone,
// and the local record of effects outside git.
//
// A log commit is only written here; the ref is moved by the caller, inside the
// transaction that makes the decision true, so the log and the branch it speaks
// of cannot disagree. The package decides nothing and moves no branch; the one
// ref that it moves itself is the control ref, which only ever grows.
package journal
