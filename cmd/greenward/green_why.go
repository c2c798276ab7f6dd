package main

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"time"

	"greenward/green"
	"greenward/internal/git"
)

func whyCommands() []command {
	return []command{
		simple("green why", "[SHA]", "what green waits for, by cause, and the cheapest next action; where SHA stands", "greenward green why\ngreenward green why main~3 --json", (*app).greenWhy),
		simple("green diff", "A B", "commits of main that came in and went out between two promotions, and why", "greenward green diff green~1 green", (*app).greenDiff),
	}
}

func (a *app) greenWhy(ctx context.Context, args []string) error {
	rev, err := optional(args)
	if err != nil {
		return err
	}
	e, err := a.currentEngines(ctx)
	if err != nil {
		return err
	}
	var commit git.Hash
	if rev != "" {
		if commit, err = e.commit(ctx, rev); err != nil {
			return usagef("green why: %v", err)
		}
	}
	y, err := e.green.Why(ctx, commit)
	if err != nil {
		return err
	}
	return a.print(y, func(w io.Writer) {
		line(w, "green is %s and %s behind main", many(y.Behind, "commit"), time.Duration(y.LagSeconds)*time.Second)
		showCauses(w, y.Cause)
		if y.Blocker != nil {
			line(w, "%s alone holds back %s", *y.Blocker, many(y.Blocks, "commit"))
		}
		if y.Detail != nil {
			line(w, "%s", *y.Detail)
		}
		if y.Calibrated.Blamed > 0 {
			line(w, "%s", y.Calibrated)
		}
		for _, rule := range slices.Sorted(maps.Keys(y.Refused)) {
			line(w, "patches of agents refused: %s, %d times", rule, y.Refused[rule])
		}
		line(w, "next: %s", y.Action)
		if y.Commit != nil {
			showPlace(w, *y.Commit)
		}
	})
}

// showCauses lists the causes of lag, the longest first.
func showCauses(w io.Writer, causes map[string]int64) {
	var names []string
	for name, seconds := range causes {
		if seconds > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(causes[b], causes[a]), cmp.Compare(a, b)) })
	for _, name := range names {
		line(w, "  %-16s %s", name, time.Duration(causes[name])*time.Second)
	}
}

func showPlace(w io.Writer, p green.Place) {
	switch p.Place {
	case green.PlaceIn:
		line(w, "%s is in green since %s", p.Commit.Short(), p.Since.Short())
	case green.PlaceOut:
		line(w, "%s is left out of green: %s", p.Commit.Short(), *p.Reason)
	case green.PlaceWaiting:
		line(w, "%s is on main and newer than green", p.Commit.Short())
	default:
		line(w, "%s is not on main", p.Commit.Short())
	}
	if p.Entry != nil {
		line(w, "  %s takes it out of main", *p.Entry)
	}
}

func (a *app) greenDiff(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return usagef("green diff: name two promotions; greenward green log lists them")
	}
	e, err := a.currentEngines(ctx)
	if err != nil {
		return err
	}
	var ends [2]git.Hash
	for i, rev := range args {
		if ends[i], err = e.commit(ctx, rev); err != nil {
			return usagef("green diff: %v", err)
		}
	}
	d, err := e.green.Diff(ctx, ends[0], ends[1])
	if err != nil {
		return err
	}
	return a.print(d, func(w io.Writer) {
		for _, m := range d.In {
			line(w, "+ %s %s (%s)", m.Commit.Short(), m.Subject, m.Author)
		}
		for _, m := range d.Out {
			line(w, "- %s %s (%s): %s", m.Commit.Short(), m.Subject, m.Author, m.Reason)
		}
	})
}
