package culprit

import "slices"

// Question is a range of commits of which one may have broken a check.
type Question struct {
	Suspects int       // commits after the good end, at the places 1..Suspects
	Weights  []float64 // how likely each suspect is before any run, by place-1; nil: alike
	Flake    float64   // the check's rate of failures on good trees, by its history; 0: 2 %
	Nothing  float64   // prior that nothing broke; 0: 40 %, as Google found of suspect ranges
	World    float64   // prior that the environment changed; 0: 1 %
	Mended   float64   // share of breaks below which another was mended; 0: 1 %
	Bare     bool      // the good end cannot be judged: there is none, or the check is not there
	Skip     []int     // places that cannot be judged at all
}

// Counts are the runs at one place. Passes that were on record before the question was
// put know nothing of a change of the world; a failure may be of it whenever it was.
type Counts struct{ Passes, Fails, OldPasses int }

func (c Counts) runs() int { return c.Passes + c.Fails + c.OldPasses }

// Evidence is what the runs at each place said; its length is Suspects+1.
type Evidence []Counts

// Saw gives the evidence with one more run at a place.
func (e Evidence) Saw(at int, failed bool) Evidence {
	out := slices.Clone(e)
	if failed {
		out[at].Fails++
	} else {
		out[at].Passes++
	}
	return out
}

// Empty is the evidence before any run.
func (q Question) Empty() Evidence { return make(Evidence, q.Suspects+1) }

// rate is a possible value of a rate, with its prior.
type rate struct{ value, prior float64 }

// shows are the rates at which a broken tree fails: most breaks fail always, and some
// of them one time in three.
func shows() []rate {
	return []rate{{.98, .6}, {.9, .14}, {.7, .14}, {.5, .08}, {.3, .04}}
}

// flakes are the rates at which a good tree fails: the fifths of a lognormal around
// what history tells, which is off by a half.
func (q Question) flakes() []rate {
	f := min(max(or(q.Flake, usualFlake), minFlake), maxFlake)
	var all []rate
	for _, times := range [...]float64{.5, .77, 1, 1.3, 2} {
		all = append(all, rate{min(f*times, .45), .2})
	}
	return all
}

const (
	usualFlake   = .02
	minFlake     = .002
	maxFlake     = .4
	usualNothing = .4
	usualWorld   = .01
	usualMended  = .01
)

func or(v, usual float64) float64 {
	if v == 0 {
		return usual
	}
	return v
}
