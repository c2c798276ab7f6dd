package culprit

// Kind of an answer.
type Kind int

// The answers. Open means that more runs are worth their price.
const (
	Open Kind = iota
	Blame
	Flake
	World
	Undecided
)

// Loss is what mistakes cost, in runs.
type Loss struct {
	Wrong  float64 // an innocent commit is blamed, or the world is, wrongly; 0: 125
	Missed float64 // a break is taken for a flake; 0: 125
	Budget int     // runs after which nobody is blamed any more; 0: 150
}

// usual losses: a run costs 1, so that with 125 a name is given at 99.2 %.
const (
	usualLoss   = 125
	usualBudget = 150
)

// Answer is what to do with a belief.
type Answer struct {
	Kind       Kind
	At         int     // Blame: the place
	Confidence float64 // of Blame, Flake or World: the probability that it is right
	Set        []int   // Undecided: the places among which the culprit is, at 99 %
}

// Decide stops where even perfect knowledge would save less than one more run costs:
// the expected loss of the best answer is the most that knowledge can save. It is
// undecided where no run tells anything, or the budget is used up: then it names a set
// instead of a commit, and nobody is reverted.
func (b Belief) Decide(l Loss) Answer {
	best := b.Best()
	answer, loss := Answer{Kind: Blame, At: best, Confidence: b.Suspect[best]}, (1-b.Suspect[best])*or(l.Wrong, usualLoss)
	if other := (1 - b.Nothing) * or(l.Missed, usualLoss); other < loss {
		answer, loss = Answer{Kind: Flake, Confidence: b.Nothing}, other
	}
	if other := (1 - b.World) * or(l.Wrong, usualLoss); other < loss {
		answer, loss = Answer{Kind: World, Confidence: b.World}, other
	}
	if loss <= 1 {
		return answer
	}
	budget := l.Budget
	if budget == 0 {
		budget = usualBudget
	}
	if b.fresh() >= budget || len(b.Plan(1)) == 0 {
		return Answer{Kind: Undecided, Set: b.Credible(.99), Confidence: b.Suspect[best]}
	}
	return Answer{Kind: Open}
}

// fresh counts the runs that the question has cost.
func (b Belief) fresh() int {
	n := 0
	for _, c := range b.evidence {
		n += c.Passes + c.Fails
	}
	return n
}
