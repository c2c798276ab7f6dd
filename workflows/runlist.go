package workflows

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/workflows/health"
)

// States of a run beside Done, Stopped, and Failed, as a list of runs shows them.
const (
	Running = "running" // a living process pursues it
	Paused  = "paused"  // its workers take on no tasks
	Waiting = "waiting" // nobody pursues it; greenward run with the same goal goes on
)

// RunLine is one run as main and its history tell it.
type RunLine struct {
	Run      string         `json:"run"`
	Goal     string         `json:"goal"` // its first line
	State    string         `json:"state"`
	Open     int            `json:"open"` // tasks
	Handoffs map[string]int `json:"handoffs"`
	Started  *time.Time     `json:"started"`
	Ended    *time.Time     `json:"ended"`
	Holder   *string        `json:"holder"` // the process whose planner pursues it
	Why      *string        `json:"why"`    // by what error it ended while its goal stayed open; its State is Failed then
	Health   []health.Line  `json:"health"` // what is done about the health of its code
	Cost     *Cost          `json:"cost"`   // so far, on this host; null where nobody counted
}

// ListRuns lists the runs that main knows, the newest first.
func ListRuns(ctx context.Context, repo *git.Repo, main git.Hash, controls journal.Controls, claims *agents.Claims) ([]RunLine, error) {
	l := runList{repo: repo, runs: map[string]*RunLine{}}
	hashes, err := repo.RevList(ctx, []git.Hash{main}, nil, "--extended-regexp", "--grep=^(Handoff|Run): ")
	if err != nil {
		return nil, fmt.Errorf("read the runs: %w", err)
	}
	for _, hash := range hashes {
		c, err := repo.Commit(hash)
		if err != nil {
			return nil, fmt.Errorf("read the runs: %w", err)
		}
		l.read(c)
	}
	board, err := agents.OpenTasks(repo, main, "")
	if err != nil {
		return nil, err
	}
	for _, goal := range board.Goals {
		if run := agents.RunOf(goal.Planner); run == goal.Planner {
			one := l.get(run)
			one.Goal, one.Ended, one.State = firstLine(goal.Text), nil, Waiting
		}
	}
	for _, t := range board.Tasks {
		l.get(agents.RunOf(t.ID)).Open++
	}
	if err := l.held(controls, claims); err != nil {
		return nil, err
	}
	lines := []RunLine{}
	for _, one := range l.runs {
		lines = append(lines, *one)
	}
	slices.SortFunc(lines, func(a, b RunLine) int {
		return cmp.Or(at(b.Started).Compare(at(a.Started)), cmp.Compare(a.Run, b.Run))
	})
	return lines, nil
}

// runList gathers runs by their names.
type runList struct {
	repo *git.Repo
	runs map[string]*RunLine
}

func (l *runList) get(run string) *RunLine {
	one, known := l.runs[run]
	if !known {
		one = &RunLine{Run: run, State: Waiting, Handoffs: map[string]int{}, Health: []health.Line{}}
		l.runs[run] = one
	}
	return one
}

// read takes what one commit of main says, newest first.
func (l *runList) read(c git.Commit) {
	t, when := c.Trailers(), c.Committer.When.UTC()
	if h, err := agents.ParseHandoff(t); err == nil {
		one := l.get(agents.RunOf(h.Task))
		switch {
		case h.Task != one.Run:
			one.Handoffs[string(h.Outcome)]++
		case one.Ended == nil:
			one.Ended, one.State = &when, Done
			if h.Outcome != agents.Done {
				one.State = Failed
			}
		}
	}
	run, begins := t.Get("Run")
	if !begins || agents.CheckID(run) != nil {
		return
	}
	one := l.get(run)
	one.Started = &when // the oldest one stays
	if text, err := l.repo.File(c.Tree, agents.GoalPath(run)); err == nil && one.Goal == "" {
		one.Goal = firstLine(string(text)) // else: such a commit names a run and holds no goal
	}
}

// held tells of unfinished runs what people ordered and who pursues them.
func (l *runList) held(controls journal.Controls, claims *agents.Claims) error {
	all, err := claims.List()
	if err != nil {
		return err
	}
	left := map[string]bool{} // whoever is killed leaves a claim, whoever ends does not
	for _, c := range all {
		left[c.Task] = true
		if one, known := l.runs[c.Task]; known && one.Ended == nil && c.Owner.Pid > 0 && c.Owner.Alive() {
			holder := fmt.Sprintf("process %d on %s", c.Owner.Pid, c.Owner.Host)
			one.State, one.Holder = Running, &holder
		}
	}
	for _, one := range l.runs {
		if one.Ended == nil {
			state, _, err := (&health.Log{Repo: l.repo, Run: one.Run}).Read()
			if err != nil {
				return err
			}
			one.Health = append(one.Health, state.Lines()...)
			if one.State == Waiting && !left[one.Run] {
				if one.Why, err = lastEnd(l.repo, one.Run); err != nil {
					return err
				}
				if one.Why != nil {
					one.State = Failed
				}
			}
		}
		switch {
		case one.Ended != nil:
		case controls.Stopped[one.Run]:
			one.State = Stopped
		case controls.Paused[one.Run]:
			one.State = Paused
		}
	}
	return nil
}

// Owns reports whether a decision is about a change of this run, as Summary counts them.
func (r *Run) Owns(d journal.Decision) bool { return r.own(d, cmp.Or(r.Name, Slug(r.Goal))) }

// own reports whether a decision is about a change of the run: its goal, a plan, or
// a hand-off of one of its tasks.
func (r *Run) own(d journal.Decision, run string) bool {
	if d.Task != "" {
		return agents.RunOf(d.Task) == run
	}
	c, err := r.Hub.Commit(d.Head)
	if err != nil {
		return false // a head that is not kept any more says nothing
	}
	return agents.RunBy(c.Trailers()) == run
}

func at(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func firstLine(text string) string {
	text = strings.TrimPrefix(strings.TrimSpace(text), "# Goal\n") // the heading that GOAL.md begins with
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(strings.TrimLeft(line, "# "))
}
