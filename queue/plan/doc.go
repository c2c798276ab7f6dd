// Package plan owns what a gated queue builds next: which sets of waiting
// changes are tested on a base, what a result proves, who lands and who leaves.
// It is pure: no clock, no git, no randomness. A caller builds what it asks for
// and says what came of it, round by round.
//
// The model. Each change is bad with a probability of its own. A set that holds
// a bad change fails; one of good changes fails with the probability of a flake.
// Changes stand in chains; what is unknown of a chain is the place of its first
// bad change. Tests are prefixes of chains, so a result moves one distribution:
// the test that is asked for next is the one with most information about it (a
// Z-channel, for a bad set never passes). Without flakes and with one slot this
// is the nested group testing of Sobel and Groll (1959) but for their table:
// fresh groups of about ln2/p, halves of what failed, and no half that another
// result implies.
//
// With k slots there are two ways. While few wait or few fail, the slots test
// k prefixes of one chain at once, which tell log2(k+1) bits a round: a passed
// prefix is landed as it was tested. Where that would land less (ordered
// speculation never lands more than (1-p)/p a round, however many slots it has),
// each slot searches a chain of its own, which tells a bit a slot. One of them,
// main, has what the others cleared at its front and stands on the newest base:
// what passes there lands as it was tested, so the union costs no test of its own.
// Where main has nothing to land in a round, a column that passed on the newest
// base lands itself.
//
// What is put in front of main says nothing of its earlier failures, and while one
// change of main is suspected nothing is put there: a clash among the others would
// be taken for its fault. Slots without a chain test a second prefix where that
// tells most, or what stands behind the suspects of another chain.
//
// A check that flakes one time in ten leaves 0.76 of a bit of each test (the
// capacity of that channel), and a failure counts for a factor of ten; a suspect
// is tested until it is sure enough, by every set that holds it.
//
// A change leaves only when its badness is sure given all runs and the base is
// known to be good: a red base ejects nobody.
package plan
