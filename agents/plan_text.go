package agents

import (
	"cmp"
	"fmt"
	"strings"

	"greenward/agents/prompts"
	"greenward/internal/git"
)

// runGoal is the goal of the whole run, for the planner of a slice.
func (p *Planner) runGoal(main git.Hash) string {
	run := RunOf(p.Path)
	if run == p.Path {
		return ""
	}
	goal, err := p.Repo.File(main, GoalPath(run))
	if err != nil {
		return "" // it orients and decides nothing
	}
	return cut(strings.ToValidUTF8(string(goal), "\ufffd"), 4000)
}

// describe is the message that wakes the planner.
func (p *Planner) describe(n News, wake Wake) string {
	var b strings.Builder
	section := func(title, text string) {
		if text = strings.TrimSpace(text); text != "" {
			b.WriteString("## " + title + "\n\n" + prompts.Visible(text) + "\n\n")
		}
	}
	section("Goal", n.Goal)
	section("The run's goal, of which yours is a slice", p.runGoal(n.Main))
	section("Your scratchpad", n.state.Scratchpad)
	section("Field guide (index of "+GuideIndex+")", Guide(p.Repo, n.Main))
	section("Decisions on record", describeDesigns(p.Repo, n.Main))
	section(fmt.Sprintf("Open tasks (%d)", n.open()), describeBoard(n.Board, p.Path))
	section("You said that the goal is met. It is not; this was found", n.Findings)
	section("What happened since you last looked", describeEvents(n, wake.Notes))
	section("Green", wake.Green)
	section("On its way", wake.Awaits)
	if n.Seen.IsZero() {
		b.WriteString("This is the first time you are woken for this goal.\n")
	}
	return b.String()
}

func describeBoard(board Board, self string) string {
	var b strings.Builder
	for i, t := range board.Tasks {
		if i == 300 {
			fmt.Fprintf(&b, "- … and %d more\n", len(board.Tasks)-i)
			break
		}
		fmt.Fprintf(&b, "- `%s` p%d %s", t.ID, t.Priority, t.Title)
		if len(t.After) > 0 {
			fmt.Fprintf(&b, " (after %s)", strings.Join(t.After, ", "))
		}
		b.WriteByte('\n')
	}
	for _, g := range board.Goals {
		if g.Planner != self {
			fmt.Fprintf(&b, "- slice `%s`, owned by its own planner\n", g.Planner)
		}
	}
	for _, m := range board.Malformed {
		fmt.Fprintf(&b, "- MALFORMED, no worker gets it (withdraw it and write it anew): %s\n", m.Error())
	}
	return cmp.Or(b.String(), "None.")
}

func describeEvents(n News, notes []string) string {
	var b strings.Builder
	const most = 64 << 10
	if n.Changed {
		b.WriteString("- The goal was edited since; what it says now is what counts.\n")
	}
	for _, id := range n.Dropped {
		fmt.Fprintf(&b, "- `%s` was dropped by somebody who removed its file: do not create it again.\n", id)
	}
	for _, h := range n.Handoffs {
		if b.Len() > most {
			b.WriteString("- … more hand-offs; read main's log if you need them\n")
			break
		}
		fmt.Fprintf(&b, "- `%s` %s: %s (commit %s)\n", h.Task, h.Outcome, h.Subject, h.Commit.Hash.Short())
		for _, list := range lists(&h.Handoff) {
			for _, value := range *list.values {
				fmt.Fprintf(&b, "  - %s: %s\n", strings.TrimPrefix(list.key, "Handoff-"), value)
			}
		}
		if h.Cost != "" {
			b.WriteString("  - Measured: " + h.Cost + "\n")
		}
		if body := strings.TrimSpace(h.Body); body != "" {
			b.WriteString("  " + strings.ReplaceAll(cut(body, 2000), "\n", "\n  ") + "\n")
		}
	}
	for _, note := range notes {
		b.WriteString("- " + cut(git.OneLine(note), 2000) + "\n")
	}
	return cmp.Or(b.String(), "Nothing.")
}
