package subset

// Where main is mostly green and what breaks it is soon undone, the newest commit that
// passes as it is comes first; where it is not, only a constructed tree does. What tells
// is x = λpR, the mean number of breaks that are on main at a time: commits an hour,
// share of bad ones, hours until one is undone.
const (
	headsBelow = .5
	buildAbove = 1.5
)

// HeadsFirst says whether main's heads get most slots, given whether they had them
// before: it changes only where x is clearly on the other side.
func HeadsFirst(x float64, before bool) bool {
	switch {
	case x < headsBelow:
		return true
	case x > buildAbove:
		return false
	}
	return before
}

// Heads is how many of some slots are for heads; the others construct. One of several
// is always for the newest head.
func Heads(slots int, first bool) int {
	switch {
	case slots < 2:
		return slots
	case first:
		return (slots + 1) / 2
	}
	return max(slots/8, 1)
}
