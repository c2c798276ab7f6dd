package green

import (
	"maps"

	"greenward/internal/verify"
)

// A command that is not there (exit 126 or 127) is the machine's fault as a rule,
// and blames nobody. Where it is not there at the snapshot, in two runs, and runs
// in a fresh run at the good end, a commit took it away: then it counts as a
// failure of that commit's, and is searched for like any other.

// askOwn asks for a fresh run at the good end of a check whose command is missing
// at the snapshot. No effect: there is none, or nothing to compare with.
func (s State) askOwn(open []string) (State, []Effect) {
	for _, id := range open {
		o := s.seen[id]
		if _, asked := s.own[id]; asked || o.Verdict != verify.Broken || o.Cause != verify.CauseMissing || o.Runs < 2 {
			continue
		}
		if !s.In.Rests || s.last() == 0 {
			return s, nil
		}
		s.own = withOwn(s.own, id, false)
		s.search = search{check: id}
		return s.ask(goalOwn, 0, true)
	}
	return s, nil
}

// owned goes back to the snapshot with the answer.
func (s State) owned() (State, []Effect) {
	id := s.search.check
	if o := s.seen[id]; o.Fresh == verify.Passed {
		s.own = withOwn(s.own, id, true)
	}
	return s.assess(goalSnapshot, Candidate{At: s.last()})
}

// judgeOwn takes a missing command for a failure where a commit is to blame.
func (s State) judgeOwn(o Seen) Seen {
	if !s.own[o.ID] || o.Verdict != verify.Broken || o.Cause != verify.CauseMissing {
		return o
	}
	o.Verdict, o.Fails, o.Again = verify.Failed, max(o.Fails, o.Runs), false
	if o.Fresh == verify.Unknown {
		o.Fresh = verify.Failed
	}
	return o
}

func withOwn(own map[string]bool, id string, yes bool) map[string]bool {
	own = maps.Clone(own)
	if own == nil {
		own = map[string]bool{}
	}
	own[id] = yes
	return own
}
