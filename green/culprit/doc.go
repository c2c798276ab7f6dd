// Package culprit owns the inference of which commit of a line broke a check: what
// is believed after some runs, where to run next, and when to stop. It is pure; who
// runs checks and reads trees is green's business.
//
// The noise is two-sided. A good tree fails at a flake rate f that its history only
// roughly tells; a bad tree fails at a show rate s that nobody knows. Both are kept as
// grids, beside the hypotheses:
//
//	a commit   it broke the check, and everything since shows it at the rate s
//	…, mended  the same, but an older break lies below it and was mended, so that
//	           runs below it say nothing
//	nothing    nothing broke: the failures are flakes
//	the world  the environment changed: everything that runs now fails at the rate s
//
// A range is searched with runs at places of the line; the good end is place 0, and a
// run there is the control that separates the world from the first commit. Runs count
// alike in any order, so that what is believed is a function of the counts.
//
// Sources: two-sided noisy search after Ben-Or and Hassidim (quant-ph/0703231), the
// rates as grids and the stop by the expected value of perfect information are our own
// choice; `greenward lab green` measures both.
package culprit
