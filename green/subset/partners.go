package subset

// Fails answers whether a commit fails together with some places below it, and nothing
// else of the line. Known false: that tree cannot be made, or has no verdict.
type Fails func(with []int) (fails, known bool, err error)

// Partners finds a smallest set of places with which a commit fails, given that it fails
// with all of them: empty, if it fails alone. Known false: it could not be found out. For
// one partner of n it takes about 2·log₂ n trials.
func Partners(all []int, fails Fails) (partners []int, known bool, err error) {
	alone, known, err := fails(nil)
	if err != nil || !known || alone {
		return nil, known, err
	}
	x := &explainer{fails: fails, known: true}
	partners, err = x.explain(nil, false, all)
	return partners, x.known, err
}

// explainer is QuickXplain (Junker, AAAI 2004).
type explainer struct {
	fails Fails
	known bool
}

// explain finds which of the candidates are needed, given those that are kept.
func (x *explainer) explain(kept []int, grown bool, candidates []int) ([]int, error) {
	if grown {
		fails, known, err := x.fails(kept)
		if x.known = x.known && known; err != nil || !x.known {
			return nil, err
		}
		if fails {
			return nil, nil
		}
	}
	if len(candidates) == 1 {
		return candidates, nil
	}
	half := len(candidates) / 2
	left, right := candidates[:half], candidates[half:]
	needed, err := x.explain(join(kept, left), true, right)
	if err != nil || !x.known {
		return nil, err
	}
	more, err := x.explain(join(kept, needed), len(needed) > 0, left)
	return join(more, needed), err
}

func join(a, b []int) []int {
	return append(append(make([]int, 0, len(a)+len(b)), a...), b...)
}
