// Package accept decides whether a patch that an agent wrote may become part of green.
// It is pure: it sees what the patch changes and what its runs said, and gives the
// rules that it breaks, by name. Who asks agents for patches and runs checks is green's
// business; which commit is to blame is culprit's.
//
// A patch is judged twice. Before anything runs, by what it changes (Patch.Refusals):
//
//	empty, size, markers, special   it is no small change of text files
//	protected, golden, runner       it touches what judges it: the policy, the forge's
//	                                workflows, expected results, skip lists, the
//	                                settings of test runners, a file that a check runs
//	hold-out, tasks                 it touches what it was not shown
//	deleted-test, skip, fewer-tests, fewer-assertions
//	                                it makes the checks see less
//
// and after the whole expected set passed on a clean workspace, by what its runs said
// (Evidence.Refusals):
//
//	executed-less, newly-skipped    a test ran fewer times than on the last green or
//	                                before the patch
//	still-fails                     what failed did not pass often enough in a row
//	hold-out-fails                  a check that the agent was not shown fails
//
// Some changes are suspicious and not wrong by themselves: a line of an existing test
// that is another now (expectation), another number beside a tolerance (tolerance), a
// look at the environment (environment), waiting or trying again (retry), an error that
// is swallowed (swallow). They are taken only where a hold-out check passed; else a
// person has to look.
//
// The rules are those of §4.7 and the tricks those of G46, of which each was seen in the
// field. Text patterns know the usual languages; the counts of tests need a report.
package accept
