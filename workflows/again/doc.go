// Package again runs a recorded conversation of a worker once more: the same replies, in
// the order in which the model gave them, but the tools at work anew, on the commit that
// the worker began on. What comes out is held against the record, so that anyone can see
// whether the work can be repeated, and where it parts first.
//
// What is compared is what the model was shown and the files that it handed in. Durations,
// names of spooled outputs and the place of the workspace do not count. A conversation is
// compared up to its first hand-off, or to where a killed process left it: what the queue
// answers is not asked again.
package again
