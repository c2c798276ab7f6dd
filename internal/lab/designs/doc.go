// Package designs keeps the ways in which many agents were set to work on one
// repository runnable, so that what is said of them can be reproduced: one agent
// alone, equals with a lock, equals with optimistic claims, rounds of a planner and
// a judge, one executor, an integrator at the gate, correctness before every commit,
// and the recursive design that this project follows.
//
// Agents are simulated on a virtual clock: thinking takes seeded time. What they
// hand in is real: every change is a commit on the base that its agent saw, every
// landing a merge by git, every check reads the tree. So conflicts, trampled work
// and breakage come out of git and are not drawn. All designs work on the same
// parameters (see Params), none of which is set for one design; each has one known
// flaw, which can be taken away.
package designs
