// Package verify says whether a check passes on a tree, and remembers why.
//
// It owns three things: running a check in a fresh workspace (Runner), the
// ledger of those runs in refs/notes/greenward (Ledger, Run), and the rules by
// which runs become verdicts (Verdict, Cause, Report). It does not decide what
// a verdict leads to: ejecting a change, finding a culprit and promoting belong
// to queue and green.
//
// A ledger line is one JSON object:
//
//	{key,tree,commit,check,def,run,verdict,cause,started,finished,runner,tests,failing,why,sig}
//
// key is <tree>/<check>/<def>/<run>; for a check with history: true its first
// part is the commit. tree is the tree without tasks/. sig is an ssh signature
// (namespace greenward-ledger) over the line without its sig. Lines are sorted
// and unique within a note, so git's own cat_sort_uniq merges two ledgers.
//
// The rules:
//
//	what happened                                   verdict   cause
//	exit 0                                          passed
//	exit 0, the report says that no test ran        unknown   empty
//	exit 0, the report says that a test failed      failed    report
//	exit other than 0                               failed    exit
//	… and a well-formed report of no test           unknown   empty
//	126 or 127: not found, not executable           broken    missing
//	SIGKILL that is not ours (137): out of memory   broken    killed
//	no workspace, no shell, disk full               broken    workspace
//	sandbox: true where there is no sandbox         broken    sandbox
//	no end within the timeout                       unknown   timeout
//	cancelled by us                                 no line at all
//
// Several runs of one check on one tree: without a failure one pass is enough
// and what was unknown or broken does not taint it. A failure is never erased:
// after one, passes and failures are weighed by Bayes with noise on both sides
// (Noise). A good tree fails with the probability f that the ledger tells of this
// check on other trees; a bad one, a priori one in fifty, fails with s on a grid.
// The check is passed again when the tree is good with 95 % (Sure): after 4, 2 or
// 1 passes where f is .5, 2 or 5 %. Until then it is failed; Outcome.Again says
// whether another run would tell more, Outcome.Missing how many passes clear it.
//
// A check in quarantine (config.Quarantine) is judged and reported like any other
// and left out of the report's verdict; when the quarantine is over the check is
// unknown, whatever its runs say. Report.Since is when the verdict became passed,
// which a soak is measured from.
package verify
