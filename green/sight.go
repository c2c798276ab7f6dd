package green

import (
	"fmt"
	"maps"

	"greenward/green/culprit"
	"greenward/internal/verify"
)

// spot is one check on one candidate's tree.
type spot struct {
	check string
	at    int
	fixes string
}

// sight is what a cycle has seen of a spot.
type sight struct {
	passes, fails int
	fresh         int // of the passes, those of this cycle
	hangs         int
	flake         float64
}

func spotOf(check string, c Candidate) spot {
	k := spot{check: check, at: c.At}
	if on := c.Applied(); len(on) > 0 {
		k.fixes = fmt.Sprint(on)
	}
	return k
}

// note keeps what a judgement said of one check on one candidate, of which some
// passes are of this hour.
func (s State) note(c Candidate, o Seen, fresh int) State {
	key := spotOf(o.ID, c)
	was := s.sights[key]
	now := sight{passes: o.Passes, fails: o.Fails, fresh: min(was.fresh+fresh, o.Passes), hangs: o.Hangs, flake: o.Flake}
	if now.passes+now.fails == 0 && o.Verdict == verify.Passed {
		now.passes = 1 // without a run: not needed, or taken over
	}
	if o.hung() {
		now.fails += o.Hangs
	}
	if now == was {
		return s
	}
	s.sights = maps.Clone(s.sights)
	if s.sights == nil {
		s.sights = map[spot]sight{}
	}
	s.sights[key] = now
	return s
}

// sight is what is known of the searched check at a place of the repaired line.
func (s State) sight(at int) sight {
	return s.sights[spotOf(s.search.check, Candidate{At: at, Fixes: s.Fixes})]
}

func (g sight) counts() culprit.Counts {
	return culprit.Counts{Passes: g.fresh, OldPasses: g.passes - g.fresh, Fails: g.fails}
}

func (g sight) known() bool { return g.passes+g.fails > 0 }
