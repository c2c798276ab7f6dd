// Package green moves the branch that is always releasable. It owns the cycle
// that judges main's tip, finds what broke it, repairs it and promotes the result
// as one signed commit, the form of that commit and its verification, and holds,
// releases and rollbacks. It does not run checks (verify), does not land anything
// on main (queue) and does not write repairs itself (agents, through Fixer).
//
// The core (Step) is pure: it sees what was frozen and what was judged, and asks
// for the next effect. Cycle freezes, runs effects and makes the promotion. The
// core keeps nothing between cycles: evidence is in the ledger, decisions are in
// git, so a cycle that was killed starts from the beginning and soon is where it was.
//
//	opened ─► snapshot ─passed──────────────────────────────► promote
//	   │         ├─ frontier: the newest commit that existing evidence accepts ─► promote, begin anew
//	   │         │failed twice
//	   │         ├─ repairs of earlier cycles ─► carried ─passed─► promote
//	   │         ▼
//	   │      base ─► probe … ─► control ─► culprit       one search per failing check
//	   │         └───────┬──────────┘          │
//	   │         the good end fails too        ▼
//	   │                 ▼            revert · agent · prefix ─passed─► promote
//	   ▼           hold environment            │ failed: the next culprit, in the
//	 rest, hold                                ▼ repaired line, at most 8 times
//	                                       hold red
//
// Broken and unknown verdicts never start a search: they hold or wait. One is the
// exception: a command that is missing at the snapshot and there in a fresh run at
// the good end was taken away by a commit.
//
// A check of the forge is waited for while its run goes; one that nobody reports for
// longer than its timeout is missing, an alert, and a hold. It cannot be run afresh
// from here, so its failure alone names no culprit.
//
// Main is asked to take a revert as soon as the revert's own check passes with it,
// whether or not green can move yet. What a machine must not take back there
// (no_revert, or too far back) green leaves out all the same.
//
// Reverting is a ladder. Guard rails first: a change that went and came back twice
// in seven days, too many reverts in a day, or more culprits than there can be
// are a person's. Then the plain revert; where later work stands on the culprit,
// an agent mends forward if there is one, else the smallest set of later commits
// on the same files goes too, else the culprit goes in part. Each is verified.
//
// A failure counts once the posterior of package verify is sure of it, and is
// outvoted by as many passes as that asks for; at least two runs are made. A
// culprit's confidence is 1 − 0.02^fails, the chance that a check which fails by
// accident in one run of fifty did not do so every time.
package green
