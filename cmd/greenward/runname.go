package main

import (
	"context"
	"fmt"
	"strings"

	"greenward/agents"
)

// runNamed is the run that a person means by its name, or by the beginning of it that
// no other has.
func (a *app) runNamed(ctx context.Context, p *place, command, name string) (string, error) {
	runs, err := a.runs(ctx, p)
	if err != nil {
		return "", err
	}
	var all, fits []string
	for _, r := range runs {
		if r.Run == name {
			return name, nil
		}
		if all = append(all, r.Run); strings.HasPrefix(r.Run, name) {
			fits = append(fits, r.Run)
		}
	}
	switch len(fits) {
	case 0:
		return "", usagef("%s: %q is no run here; greenward runs lists them: %s", command, name, orElse(someOf(all), "there is none yet"))
	case 1:
		return fits[0], nil
	}
	return "", usagef("%s: %q is the beginning of several runs: %s", command, name, someOf(fits))
}

// chosen is the run that a list is to be of; empty: all of them.
func (a *app) chosen(ctx context.Context, p *place, command, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	return a.runNamed(ctx, p, command, name)
}

// watched is chosen, and takes a run besides that has left nothing but transcripts.
func (a *app) watched(ctx context.Context, p *place, command, name string) (string, error) {
	if agents.CheckID(name) == nil {
		if files, err := (agents.Query{Run: name}).Transcripts(p.hub.State()); err != nil || len(files) > 0 {
			return name, err
		}
	}
	return a.chosen(ctx, p, command, name)
}

// someOf is a list of names that a line can hold.
func someOf(names []string) string {
	const most = 20
	if more := len(names) - most; more > 0 {
		names = append(names[:most:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
