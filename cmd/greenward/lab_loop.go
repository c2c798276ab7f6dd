package main

import (
	"time"

	"greenward/internal/journal"
	"greenward/internal/lab/designs"
	"greenward/workflows/health"
)

// labLoop is the loop of codebase health as runs have it, for the lab's run. Nobody
// resumes it.
func labLoop(workers int) designs.Loop {
	state := health.State{}
	return func(p designs.Past) designs.Order {
		past := health.Past{Lines: map[string]int{}}
		for _, l := range p.Landings {
			// Behind is zero: what lags far behind is put onto the newest main before
			// its last test.
			one := health.Landing{Commit: l.Commit, At: l.At, Task: l.Task, Restores: l.Restores}
			for _, f := range l.Files {
				one.Files = append(one.Files, health.File(f))
			}
			past.Landings = append(past.Landings, one)
		}
		for _, r := range p.Refusals {
			past.Refusals = append(past.Refusals, health.Refusal{At: r.At, Task: r.Task, Reason: journal.ReasonConflict, Paths: r.Paths})
		}
		for _, c := range p.Colours {
			past.Colours = append(past.Colours, health.Colour(c))
		}
		lines := state.Step(health.Detect(past, designs.Run, p.Now, health.Window), health.Detect(past, designs.Run, p.Now, health.Recent), p.Now, time.Time{})
		for _, l := range lines {
			state = state.Fold(l)
		}
		order := designs.Order{Workers: state.Workers(workers), Apart: state.Apart(), Serial: state.Serial(), Rests: state.Rests}
		for _, l := range state.Lines() {
			order.Reactions = append(order.Reactions, string(l.Signal)+": "+string(l.Reaction))
		}
		return order
	}
}
