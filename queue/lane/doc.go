// Package lane owns error budgets: how often what comes from one place breaks
// main, which lanes have to be tested before they land, and how much may be on
// main that nobody has judged yet. It is a pure fold over what the two logs say.
//
// A lane is a source (an author, the role of an agent) or a part of the tree
// (path/<top folder>). A landing is a sample of its lanes once green has judged
// main up to it: bad if it was named a culprit, else good. What is tested before
// it lands is a sample at once. A path is charged with what was landed untested,
// and is over its budget only if two sources broke it: one bad author does not
// close a folder for the others.
//
// A lane is gated when the red share of its newest samples exceeds the budget,
// and open again when it is at most half of it. Between the two it stays what it
// was, so that it does not flap.
//
// Pace is the whole: while culprits arrive faster than they are repaired, so that
// those without a repair grow in number, the number of landings that may be unjudged
// at once is halved, and it grows by a step with each cycle that keeps up (additive increase, multiplicative decrease, as
// in Chiu and Jain 1989). What comes on top is tested before it lands; nothing
// waits for green.
package lane
