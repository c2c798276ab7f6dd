package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"greenward/agents"
	"greenward/internal/git"
)

// agentLine is one agent as `top --json` prints it. Of an agent whose transcript is on
// another host its claim tells who it is and when it last stirred, and the rest is null.
type agentLine struct {
	Run     string     `json:"run"`
	Agent   string     `json:"agent"`
	Role    string     `json:"role"`
	Task    *string    `json:"task"`
	Since   *time.Time `json:"since"`
	Last    time.Time  `json:"last"` // event, or heartbeat
	Replies *int       `json:"replies"`
	Tokens  *int64     `json:"tokens"` // of this task
	USD     *float64   `json:"usd"`
	Doing   string     `json:"doing"`
	State   string     `json:"state"` // working, landing, dead, ended
	Away    bool       `json:"away"`  // its transcript is on another host
}

func (a *app) top(ctx context.Context, run string, watch bool) error {
	p, err := a.current(ctx)
	if err != nil {
		return err
	}
	if run, err = a.watched(ctx, p, "top", run); err != nil {
		return err
	}
	meter := &agents.Meter{State: p.hub.State()} // reads on from where it was
	for {
		if err := a.topOnce(ctx, p, meter, run, watch); err != nil || !watch {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(2 * time.Second):
		}
	}
}

func (a *app) topOnce(ctx context.Context, p *place, meter *agents.Meter, run string, anew bool) error {
	lines, err := a.agentLines(p, run)
	if err != nil {
		return err
	}
	runs, err := a.runs(ctx, p)
	if err != nil {
		return err
	}
	if err := a.costs(p, meter, runs); err != nil {
		return err
	}
	doc := map[string]any{"agents": lines, "runs": runs}
	return a.print(doc, func(w io.Writer) {
		if anew {
			fmt.Fprint(w, "\x1b[H\x1b[2J")
		}
		for _, r := range runs {
			if run == "" || r.Run == run {
				line(w, "%-8s %-40s %d open, %s%s", r.State, r.Run, r.Open, outcomes(r.Handoffs), costText(r.Cost))
				showHealth(w, r.Health)
			}
		}
		for _, l := range lines {
			line(w, "%-12s %-8s %-44s %s  %8s  %s", l.Agent, l.State, null(l.Task), l.used(), a.now().Sub(l.Last).Round(time.Second), l.Doing)
		}
		line(w, "%s", many(len(lines), "agent"))
	})
}

// claimed is the claims of this hub by task.
func (a *app) claimed(p *place) (map[string]agents.Claim, error) {
	all, err := (&agents.Claims{Repo: p.hub.Repo, Now: a.now}).List()
	claims := map[string]agents.Claim{}
	for _, c := range all {
		claims[c.Task] = c
	}
	return claims, err
}

// seen holds what a transcript says last against who holds the task now: an agent
// that was killed could not write that it ended.
func (l *agentLine) seen(claims map[string]agents.Claim) {
	task := ""
	if l.Task != nil {
		task = *l.Task
	}
	switch c, held := claims[task]; {
	case held && c.Holder == l.Agent:
		if c.Owner.Pid > 0 && !c.Owner.Alive() {
			l.State, l.Doing = "dead", fmt.Sprintf("its process %d is gone; who works next takes the task over, after: %s", c.Owner.Pid, l.Doing)
		}
	case l.Role != "worker": // others hold no claim of their own
	case held:
		l.State, l.Doing = "ended", "its task is held by "+printable(c.Holder)+" now"
	default:
		l.State, l.Doing = "ended", "its task is over"
	}
}

// agentLines is every agent that did something within the last day, the busiest
// first.
func (a *app) agentLines(p *place, run string) ([]agentLine, error) {
	files, err := agents.Query{Run: run}.Transcripts(p.hub.State())
	if err != nil {
		return nil, err
	}
	claims, err := a.claimed(p)
	if err != nil {
		return nil, err
	}
	prices := account(p.policy.Agents, p.hub.State()).Prices
	lines := []agentLine{}
	for _, file := range files {
		last, err := agents.LastEpisode(file)
		if err != nil {
			return nil, err
		}
		if last.Start.Kind == "" || a.now().Sub(last.At) > 24*time.Hour {
			continue
		}
		l := agentLine{
			Run: filepath.Base(filepath.Dir(file)), Agent: last.Start.Agent, Role: last.Start.Role, Task: absent(last.Start.Task), Since: &last.Start.At, Last: last.At,
			Replies: &last.Replies, Doing: printable(last.Doing), State: "working",
		}
		sum := prices.Total(last.Spent)
		tokens := sum.Total()
		if l.Tokens = &tokens; sum.Unpriced == 0 {
			l.USD = &sum.USD
		}
		switch {
		case last.Ended && last.Submitted:
			l.State = "landing"
		case last.Ended:
			l.State = "ended"
		}
		if l.State != "ended" {
			l.seen(claims)
		}
		lines = append(lines, l)
	}
	away, err := a.away(p, run, lines, claims)
	if err != nil {
		return nil, err
	}
	lines = append(lines, away...)
	slices.SortStableFunc(lines, func(a, b agentLine) int {
		return cmp.Or(strings.Compare(b.State, a.State), strings.Compare(a.Agent, b.Agent))
	})
	return lines, nil
}

// used is what an agent has used, in words for a person.
func (l *agentLine) used() string {
	if l.Replies == nil || l.Tokens == nil {
		return fmt.Sprintf("%4s replies %9s tokens", "-", "-")
	}
	return fmt.Sprintf("%4d replies %9d tokens%s", *l.Replies, *l.Tokens, dollars(l.USD))
}

// away is every agent that holds a claim of this hub and has no transcript beside it:
// one that works from another host, or from a mirror on this one.
func (a *app) away(p *place, run string, here []agentLine, claims map[string]agents.Claim) ([]agentLine, error) {
	var lines []agentLine
	for _, task := range slices.Sorted(maps.Keys(claims)) {
		c := claims[task]
		known := func(l agentLine) bool { return l.Agent == c.Holder && l.Task != nil && *l.Task == task }
		if run != "" && agents.RunOf(task) != run || slices.ContainsFunc(here, known) {
			continue
		}
		beat, err := p.hub.Commit(c.Commit)
		if errors.Is(err, git.ErrNotFound) {
			continue // it moved on meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read the claim on %s: %w", task, err)
		}
		l := agentLine{Run: agents.RunOf(task), Agent: printable(c.Holder), Role: "worker", Task: &task, Last: beat.Committer.When.UTC(), State: "working", Away: true}
		if l.Doing = "its transcript is on its own host"; !c.Owner.Alive() {
			l.State, l.Doing = "dead", fmt.Sprintf("its process %d is gone; who works next takes the task over", c.Owner.Pid)
		}
		lines = append(lines, l)
	}
	return lines, nil
}
