package green

import (
	"fmt"
	"slices"
	"strings"

	"greenward/internal/git"
	"greenward/internal/verify"
)

// Reasons of a hold or a wait.
const (
	ReasonManual      = "manual"
	ReasonHistory     = "history"
	ReasonPolicy      = "policy"
	ReasonEnvironment = "environment"
	ReasonInfra       = "infra"
	ReasonMissing     = "missing-check"
	ReasonPending     = "waiting-for-ci"
	ReasonRed         = "red"
	ReasonDebt        = "debt"
	ReasonBusy        = "busy"
	ReasonKey         = "signing-key"
	ReasonFault       = "promoter-fault"
	ReasonSoak        = "soak"
	ReasonRefused     = "promote-failed"
)

// repair tries the next means, in the order of the configuration.
func (s State) repair() (State, []Effect) {
	for s.strategy < len(s.In.Repair) {
		name := s.In.Repair[s.strategy]
		switch name {
		case RepairRevert:
			if next, effects := s.revert(); effects != nil {
				return next, effects
			}
		case RepairSubset:
			if len(s.Stuck)+len(s.later) > 0 && s.canMend() {
				break // an agent mends forward; leaving more out comes after it
			}
			if next, effects := s.construct(); effects != nil {
				return next, effects
			}
		case RepairAgent:
			if s.In.Fixer && s.mends < maxMends {
				s.mends++
				s.goal, s.cand = goalMend, s.head()
				return s, []Effect{Mend{Cand: s.cand, Failing: s.left, Culprits: s.guilty()}}
			}
			if next, effects := s.widenLater(); effects != nil {
				return next, effects
			}
			if !s.In.Fixer {
				s.Alerts = append(s.Alerts, "repair-skipped: no fixup agent is configured (agents.model, and OPENAI_API_KEY or OPENAI_BASE_URL)")
			}
		case RepairPrefix:
			if slices.Contains(s.In.Repair[:s.strategy], RepairSubset) {
				if next, effects := s.construct(); effects != nil {
					return next, effects
				}
			}
			s.strategy++
			s.prefixes = s.shorter()
			return s.shorten()
		default:
			s.Alerts = append(s.Alerts, fmt.Sprintf("repair-skipped: %s is not available yet", name))
		}
		s.strategy++
	}
	return s, []Effect{Hold{
		Reason: ReasonRed, Detail: "no repair made the required checks pass: " + s.blamed(),
		Offer: Candidate{At: s.last(), Fixes: s.proven},
	}}
}

// prove keeps the reverts of a judged candidate whose own check passes with them:
// main may take them, whatever else is wrong with it.
func (s State) prove(failed, open []string) State {
	if s.goal != goalReverted {
		return s
	}
	for _, f := range s.Effective(s.cand) {
		settled := slices.Contains(s.all, f.Check) && !slices.Contains(failed, f.Check) && !slices.Contains(open, f.Check)
		known := slices.ContainsFunc(s.proven, func(p Fix) bool { return p.Commit == f.Commit })
		if f.Kind == RepairRevert && settled && !known {
			s.proven = append(slices.Clip(s.proven), f)
		}
	}
	return s
}

// guilty are the culprits that are named and not left out.
func (s State) guilty() []git.Hash {
	var all []git.Hash
	for _, c := range s.Culprits {
		if c.toGo() && !s.isOut(c.Commit) && !slices.Contains(all, c.Commit) {
			all = append(all, c.Commit)
		}
	}
	return all
}

func (s State) notMended(e NotMended) (State, []Effect) {
	s.Refused = append(slices.Clip(s.Refused), e.Refused...)
	s.Alerts = append(s.Alerts, "repair-failed: the agent gave no patch: "+e.Why)
	return s.repair()
}

// unbuilt goes on where a candidate could not be made.
func (s State) unbuilt(e Unbuilt) (State, []Effect) {
	switch s.goal { //nolint:exhaustive // the snapshot itself is below, and nothing is judged while an agent works
	case goalCarried:
		if slices.ContainsFunc(s.Fixes, func(f Fix) bool { return f.Commit == e.Fix && f.Check == askedReason }) {
			return s.hold(ReasonManual, fmt.Sprintf("%s is to be left out, as asked, and no longer can be: %s; exclude what stands on it too, or `greenward green include %s`", e.Fix.Short(), e.Why, e.Fix))
		}
		s.Alerts = append(s.Alerts, fmt.Sprintf("repair-dropped: %s no longer applies: %s", e.Fix.Short(), e.Why))
		return s.uncarry(e.Fix)
	case goalReverted:
		s.Alerts = append(s.Alerts, fmt.Sprintf("revert-refused: %s: %s", e.Fix.Short(), e.Why))
		return s.unrevert(e.Fix)
	case goalMended:
		s.Fixes = s.Fixes[:len(s.Fixes)-1]
		s.Alerts = append(s.Alerts, "repair-refused: the agent's patch: "+e.Why)
		return s.repair()
	case goalConstructed:
		return s.notConstructed(e.Why)
	case goalPrefix:
		return s.shorten()
	case goalBase:
		return s.undecided(nil, nil)
	}
	return s.hold(ReasonPolicy, e.Why)
}

// uncarry drops a repair of an earlier cycle that main has outgrown.
func (s State) uncarry(fix git.Hash) (State, []Effect) {
	s.Fixes = without(s.Fixes, fix)
	s.In.Carry = without(s.In.Carry, fix)
	if fix.IsZero() || len(s.Fixes) == 0 {
		s.Fixes, s.In.Carry, s.In.Must = nil, nil, false
		return s.assess(goalSnapshot, s.head())
	}
	return s.assess(goalCarried, s.head())
}

func without(fixes []Fix, commit git.Hash) []Fix {
	return slices.DeleteFunc(slices.Clone(fixes), func(f Fix) bool { return f.Commit == commit })
}

// shorter lists the places that a shorter promotion could end at: the newest
// that were not seen to fail, then the one before the oldest culprit.
func (s State) shorter() []int {
	var places []int
	for at := s.last() - 1; at > 0 && len(places) < maxPrefix; at-- {
		if !slices.Contains(s.red, at) {
			places = append(places, at)
		}
	}
	before := s.last()
	for _, c := range s.Culprits {
		if c.toGo() {
			before = min(before, c.At-1)
		}
	}
	if before > 0 && before < s.last() && !slices.Contains(places, before) {
		places = append(places, before)
	}
	return places
}

func (s State) shorten() (State, []Effect) {
	if len(s.prefixes) == 0 {
		return s.repair()
	}
	at := s.prefixes[0]
	s.prefixes = s.prefixes[1:]
	return s.assess(goalPrefix, Candidate{At: at, Fixes: s.In.Carry})
}

// inconclusive ends the cycle where a verdict is missing: nobody is to blame.
func (s State) inconclusive(open []string) (State, []Effect) {
	if s.goal == goalSnapshot {
		s = s.ruled()
		if next, effects := s.askOwn(open); effects != nil {
			return next, effects
		}
	}
	reason, detail := ReasonPending, ""
	for _, id := range open {
		o := s.seen[id]
		switch {
		case o.Verdict == verify.Broken:
			reason, detail = ReasonInfra, describe(id, o)
		case reason != ReasonInfra && (o.Overdue || o.Runs > 0 && o.Cause != verify.CausePending):
			reason, detail = ReasonMissing, describe(id, o)
		case detail == "":
			detail = describe(id, o)
		}
	}
	if reason == ReasonPending {
		return s, []Effect{Wait{Reason: reason, Detail: detail, Offer: s.answered()}}
	}
	s.Alerts = append(s.Alerts, reason+": "+detail)
	if reason == ReasonMissing && slices.ContainsFunc(open, func(id string) bool { return s.seen[id].Overdue }) {
		s.Alerts = append(s.Alerts, "unsatisfiable-check: nothing can be promoted while the policy requires what nobody reports; `renamed:` lists a check's other names")
	}
	return s.hold(reason, detail)
}

// answered is the candidate that waits for nothing but verdicts still to come, if
// it holds repairs: main need not wait for them.
func (s State) answered() Candidate {
	failed, _ := s.sort()
	if s.cand.At < s.last() || len(failed) > 0 || s.goal == goalBase {
		return Candidate{}
	}
	return s.cand
}

func describe(id string, o Seen) string {
	switch {
	case o.ID == "":
		return fmt.Sprintf("check %s is required and was not reported", id)
	case o.Why != "":
		return fmt.Sprintf("check %s is %s: %s", id, o.Verdict, o.Why)
	}
	return fmt.Sprintf("check %s is %s", id, o.Verdict)
}

// blamed says in words what the searches found.
func (s State) blamed() string {
	var words []string
	for _, c := range s.Culprits {
		if c.Kind != KindFlake {
			words = append(words, fmt.Sprintf("%s (%s, %s)", c.Check, c.Commit.Short(), c.Kind))
		}
	}
	if len(words) == 0 {
		return "no culprit is known"
	}
	return strings.Join(words[:min(len(words), 4)], ", ")
}

// ruled keeps the verdict on the snapshot, and what it is computed from.
func (s State) ruled() State {
	s.Verdict, s.Evidence = verdictOf(s.all, s.seen), nil
	for _, id := range s.all {
		s.Evidence = append(s.Evidence, s.seen[id].Evidence...)
	}
	return s
}

// verdictOf is the verdict of the required checks together.
func verdictOf(all []string, seen map[string]Seen) verify.Verdict {
	worst := verify.Passed
	for _, id := range all {
		switch v := seen[id].Verdict; {
		case seen[id].failed():
			return verify.Failed
		case v == verify.Broken:
			worst = verify.Broken
		case v != verify.Passed && worst != verify.Broken:
			worst = verify.Unknown
		}
	}
	return worst
}
