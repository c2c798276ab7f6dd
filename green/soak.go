package green

import (
	"fmt"
	"time"
)

// ripe reports whether a check passed long enough ago.
func (f Frozen) ripe(o Seen) bool { return f.Ripe.IsZero() || !o.Since.After(f.Ripe) }

// soaking names the check of the accepted candidate that passed last, if that is
// too short a while ago; empty: the candidate has soaked.
func (s State) soaking() string {
	last := ""
	for _, id := range s.all {
		if o := s.seen[id]; !s.In.ripe(o) && (last == "" || o.Since.After(s.seen[last].Since)) {
			last = id
		}
	}
	return last
}

// soak waits for an accepted candidate. When it was accepted is on record, so a
// newer head begins nothing anew: the newest place of main that has soaked is
// promoted meanwhile.
func (s State) soak(id string) (State, []Effect) {
	if s.goal == goalSnapshot && !s.recalled && s.last() > 1 {
		s.recalled = true
		return s, []Effect{Recall{}}
	}
	since := s.seen[id].Since
	return s, []Effect{Wait{Reason: ReasonSoak, Offer: s.cand, Detail: fmt.Sprintf("accepted since %s, green from %s on",
		since.UTC().Format(time.RFC3339), since.Add(s.In.Soak).UTC().Format(time.RFC3339))}}
}
