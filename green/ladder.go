package green

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"greenward/internal/git"
)

// The fraction rule: where this many culprits, and more than half of the newest
// commits, are implicated, something else is to blame.
const (
	circuitWindow = 50
	circuitLeast  = 6
)

// frontier goes on once it is known how far existing evidence accepts main.
func (s State) frontier(e Recalled) (State, []Effect) {
	if e.At > 0 {
		return s, []Effect{Promote{Cand: Candidate{At: e.At}, Repair: RepairPrefix, Checks: e.Seen, Early: true}}
	}
	failed, open := s.sort()
	return s.settle(failed, open)
}

// revert climbs the ladder by one rung: the guard rails, plain reverts of the
// culprits that are named, then other ways to leave out those that are in use. No
// effect means that nothing is left to try.
func (s State) revert() (State, []Effect) {
	if why := s.circuit(); why != "" {
		s.Alerts = append(s.Alerts, "circuit-open: "+why)
		return s.hold(ReasonEnvironment, why)
	}
	if fresh := s.unvetted(); len(fresh) > 0 {
		s.goal, s.vetted = goalVet, append(slices.Clip(s.vetted), fresh...)
		return s, []Effect{Vet{fresh}}
	}
	if s = s.addReverts(); s.dirty {
		return s.assess(goalReverted, s.head())
	}
	for _, f := range s.Fixes {
		if next, ok := s.nextWay(f.Commit); ok {
			return next.assess(goalReverted, next.head())
		}
	}
	return s, nil
}

// circuit says why nothing may be reverted at all; empty: it may.
func (s State) circuit() string {
	window := min(circuitWindow, s.last())
	places := map[int]bool{}
	for _, c := range s.Culprits {
		if c.toGo() && c.At > s.last()-window {
			places[c.At] = true
		}
	}
	if len(places) < circuitLeast || 2*len(places) <= window {
		return ""
	}
	return fmt.Sprintf("%d of the newest %d commits are blamed, which is more than commits are to blame for: a person has to look", len(places), window)
}

// revertable are the culprits that are named and not left out yet. The first
// commit of all stays: nothing would be left, and nothing to rest on.
func (s State) revertable() []Culprit {
	var all []Culprit
	for _, c := range s.Culprits {
		root := c.At == 1 && s.In.Line[0].IsZero()
		if c.toGo() && !root && !s.isOut(c.Commit) && !slices.Contains(s.Stuck, c.Commit) {
			all = append(all, c)
		}
	}
	return all
}

func (s State) isOut(h git.Hash) bool {
	return slices.ContainsFunc(s.Fixes, func(f Fix) bool { return f.leavesOut(h) })
}

func (s State) unvetted() []git.Hash {
	var all []git.Hash
	for _, c := range s.revertable() {
		if !slices.Contains(s.vetted, c.Commit) && !slices.Contains(all, c.Commit) {
			all = append(all, c.Commit)
		}
	}
	return all
}

// refuse takes the word of the guard rails and goes on.
func (s State) refuse(refused map[git.Hash]string) (State, []Effect) {
	for _, h := range s.vetted {
		if why, ok := refused[h]; ok {
			s.Alerts = append(s.Alerts, fmt.Sprintf("revert-stopped: %s: %s", h.Short(), why))
			s.Stuck = append(slices.Clip(s.Stuck), h)
		}
	}
	return s.repair()
}

// addReverts leaves out every culprit that is named and can still be left out.
func (s State) addReverts() State {
	for _, c := range s.revertable() {
		if s.isOut(c.Commit) {
			continue // twice named, for two checks
		}
		s.Fixes = append(slices.Clip(s.Fixes), Fix{
			Kind: RepairRevert, Commit: c.Commit, From: c.At, Culprits: []git.Hash{c.Commit}, Check: c.Check,
		})
		s.dirty = true
	}
	return s
}

// unrevert tries another way for one revert that does not apply, or gives it up
// and keeps the others.
func (s State) unrevert(fix git.Hash) (State, []Effect) {
	if fix.IsZero() { // the tree itself is refused: leave out none of them
		for _, f := range s.Fixes {
			if f.Kind == RepairRevert {
				s.Stuck = append(slices.Clip(s.Stuck), f.Commit)
			}
		}
		s.Fixes = slices.DeleteFunc(slices.Clone(s.Fixes), func(f Fix) bool { return f.Kind == RepairRevert })
		s.strategy++
		return s.repair()
	}
	at := slices.IndexFunc(s.Fixes, func(f Fix) bool { return f.Commit == fix })
	if at >= 0 && s.Fixes[at].Kind == RepairRevert && !slices.Contains(s.widened, fix) {
		if !s.canMend() {
			return s.askWider(s.Fixes[at])
		}
		// An agent mends forward; wider reverts cost innocent work, so they come after it.
		s.later = append(slices.Clip(s.later), s.Fixes[at])
	}
	if next, ok := s.nextWay(fix); ok {
		return next.assess(goalReverted, next.head())
	}
	s.Stuck = append(slices.Clip(s.Stuck), fix)
	s.Fixes = without(s.Fixes, fix)
	if len(s.Fixes) == 0 {
		s.strategy++
		return s.repair()
	}
	return s.assess(goalReverted, s.head()) // the rest may do
}

// canMend reports whether an agent can still be asked for a patch.
func (s State) canMend() bool {
	return s.In.Fixer && s.mends < maxMends && slices.Contains(s.In.Repair[min(s.strategy, len(s.In.Repair)):], RepairAgent)
}

func (s State) askWider(f Fix) (State, []Effect) {
	s.goal, s.widened = goalReverted, append(slices.Clip(s.widened), f.Commit)
	return s, []Effect{Widen{Cand: s.head(), Fix: f}}
}

// widenLater climbs the rungs that were passed over for an agent.
func (s State) widenLater() (State, []Effect) {
	if len(s.later) == 0 {
		return s, nil
	}
	f := s.later[0]
	s.later = s.later[1:]
	s.Fixes = append(slices.Clip(s.Fixes), f)
	s.Stuck = slices.DeleteFunc(slices.Clone(s.Stuck), func(h git.Hash) bool { return h == f.Commit })
	return s.askWider(f)
}

// widen takes other ways to leave a culprit out, and the first of them.
func (s State) widen(e Widened) (State, []Effect) {
	wider := maps.Clone(s.wider)
	if wider == nil {
		wider = map[git.Hash][]Fix{}
	}
	wider[e.Fix] = e.Fixes
	s.wider = wider
	return s.unrevert(e.Fix)
}

// nextWay puts the next untried way in the place of a fix.
func (s State) nextWay(fix git.Hash) (State, bool) {
	ways := s.wider[fix]
	at := slices.IndexFunc(s.Fixes, func(f Fix) bool { return f.Commit == fix })
	if len(ways) == 0 || at < 0 {
		return s, false
	}
	s.Fixes, s.wider = slices.Clone(s.Fixes), maps.Clone(s.wider)
	s.Fixes[at], s.wider[fix] = ways[0], ways[1:]
	how := "in part, since later work rewrote the rest"
	if with := ways[0].With; len(with) > 0 {
		var names []string
		for _, h := range with {
			names = append(names, h.Short())
		}
		how = "with " + strings.Join(names, ", ") + ", which stand on it"
	}
	s.Alerts = append(s.Alerts, fmt.Sprintf("revert-widened: %s is left out %s", fix.Short(), how))
	return s, true
}
