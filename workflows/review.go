package workflows

import (
	"context"
	"fmt"
	"strings"

	"greenward/agents"
	"greenward/green"
	"greenward/internal/git"
)

// maxJudged is how often a planner's word may be found untrue before the run ends
// as failed: it would go on for ever.
const maxJudged = 5

// maxUnjudged is how often in a row a judge may come to no verdict: no verdict is not
// a pass.
const maxUnjudged = 3

// futileError says that going on would not help.
type futileError struct{ why string }

func (e *futileError) Error() string { return e.why }

// review looks at a goal that its planner holds to be met. Green first follows
// main as far as it can; then the judge looks at green, not at claims.
func (t *tree) review(ctx context.Context, p agents.Proposal) (agents.Review, error) {
	if t.Judge == nil {
		return agents.Review{Met: true}, nil
	}
	at, stands, err := t.released(ctx, p.Main)
	if err != nil {
		return agents.Review{}, err
	}
	var j agents.Judgement
	for try := 0; !j.Known; try++ {
		if try == maxUnjudged {
			return agents.Review{}, &futileError{fmt.Sprintf("the planner says that the goal is met, and its judge came to no verdict %d times (%s), so nobody has looked: see greenward replay judge, then run the goal again", try, j.Cut)}
		}
		if j, err = t.Judge(ctx, agents.Case{Run: t.run, At: at, Goal: p.Goal, Claimed: p.Summary, Green: stands}); err != nil {
			return agents.Review{}, err
		}
	}
	switch {
	case j.Met:
		return agents.Review{Met: true, Note: git.OneLine(fmt.Sprintf("judged on %s: %s", at.Short(), strings.Join(j.Findings, "; ")))}, nil
	case p.Rounds+1 >= maxJudged:
		return agents.Review{}, &futileError{fmt.Sprintf("the planner said %d times that the goal is met, and the judge found each time that it is not: %s", maxJudged, strings.Join(j.Findings, "; "))}
	}
	return agents.Review{Findings: "- " + strings.Join(j.Findings, "\n- ")}, nil
}

// released is the commit that is judged, and how green stands: green when it is
// kept and has followed, else main as the planner saw it.
func (t *tree) released(ctx context.Context, main git.Hash) (git.Hash, string, error) {
	if t.Engine == nil {
		return main, "Nothing is called green here: no checks are configured.", nil
	}
	for range 6 {
		status, err := t.Engine.Status(ctx)
		if err != nil {
			return "", "", err
		}
		if status.Behind == 0 || status.Hold != nil {
			break
		}
		result, err := t.Engine.Cycle(ctx)
		if err != nil {
			return "", "", fmt.Errorf("bring green to where the judge looks: %w", err)
		}
		if t.Schedule != nil && t.Schedule.OnTick != nil {
			t.Schedule.OnTick(result)
		}
		if result.Action == green.ActionNone {
			if err := wait(ctx, t.Moved.Heard(), pollEvery); err != nil { // another cycle is at it
				return "", "", err
			}
		}
	}
	stands, _, err := t.greenLines(ctx)
	if err != nil {
		return "", "", err
	}
	tip, err := t.Hub.Tip(t.Engine.Green)
	if tip.IsZero() {
		return main, stands + " There is no green yet; this is main.", err
	}
	return tip, stands, err
}
