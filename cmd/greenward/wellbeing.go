package main

import (
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/workflows/health"
)

// healthLogs are the logs of the runs' health that a process reads.
type healthLogs struct {
	repo *git.Repo

	mu   sync.Mutex
	logs map[string]*health.Log
}

func (h *healthLogs) of(run string) *health.Log {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.logs == nil {
		h.logs = map[string]*health.Log{}
	}
	if h.logs[run] == nil {
		h.logs[run] = &health.Log{Repo: h.repo, Run: run}
	}
	return h.logs[run]
}

// state is what is done about a run's health at this moment.
func (h *healthLogs) state(run string) (health.State, error) {
	state, _, err := h.of(run).Read()
	return state, err
}

// watch looks after the health of a run.
func (c *crew) watch(run string) *health.Watch {
	return &health.Watch{
		Reader: health.Reader{Repo: c.hub.Repo, Main: c.main}, Log: c.health.of(run), Now: c.app.now, By: "greenward",
		Resumed: func() (time.Time, error) {
			controls, err := c.controls()
			return controls.Resumed[run], err
		},
	}
}

// showHealth prints what is done about the health of a run.
func showHealth(w io.Writer, lines []health.Line) {
	for _, l := range lines {
		line(w, "         health: %s, %s %s: %s", l.Reaction, l.Signal, printable(l.Subject), printable(l.Says))
	}
}

// healthEvents are the decisions about the health of runs that a query picks, as
// `log` prints events.
func healthEvents(repo *git.Repo, q agents.Query) ([]eventLine, error) {
	if q.Agent != "" && q.Agent != "health" || q.Task != "" || len(q.Kinds) > 0 && !slices.Contains(q.Kinds, agents.EventNote) {
		return nil, nil
	}
	refs, err := repo.Refs(git.RunLogPrefix)
	if err != nil {
		return nil, err
	}
	var out []eventLine
	for _, r := range refs {
		run := strings.TrimPrefix(string(r.Ref), git.RunLogPrefix)
		if q.Run != "" && q.Run != run {
			continue
		}
		_, lines, err := (&health.Log{Repo: repo, Run: run}).Read()
		if err != nil {
			return nil, err
		}
		for _, l := range lines {
			e := agents.Event{At: l.At, Agent: "health", Kind: agents.EventNote, Text: l.State + " " + string(l.Reaction) + ": " + l.Says + " [" + strings.Join(l.Evidence, ", ") + "]"}
			if strings.Contains(e.Text, q.Text) && !e.At.Before(q.From) && (q.To.IsZero() || !e.At.After(q.To)) {
				out = append(out, eventLine{run, e})
			}
		}
	}
	return out, nil
}
