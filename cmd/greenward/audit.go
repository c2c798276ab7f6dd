package main

import (
	"context"
	"flag"
	"io"
	"slices"
	"strings"

	"greenward/internal/git"
	"greenward/queue"
)

func auditCommand() command {
	return command{
		name: "audit", args: "[RANGE]", summary: "recompute every landed tree by an independent path; exit 1 where one is not what it should be",
		example: "greenward audit\ngreenward audit --json v1.4..main\ngreenward -C /srv/other.git audit main~500..main",
		run: func(a *app, _ *flag.FlagSet) func(context.Context, []string) error {
			return func(ctx context.Context, args []string) error {
				span, err := optional(args)
				if err != nil {
					return err
				}
				return a.audit(ctx, span)
			}
		},
	}
}

func (a *app) audit(ctx context.Context, span string) error {
	p, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	repo, from, to, err := p.span(ctx, span)
	if err != nil {
		return err
	}
	report, err := queue.AuditRange(ctx, repo, from, to)
	if err != nil {
		return err
	}
	if err := a.print(report, func(w io.Writer) {
		for _, m := range report.Mismatches {
			line(w, "mismatch %s", m.Commit)
			line(w, "  expected %s", m.Expected)
			line(w, "  actual   %s", m.Actual)
		}
		line(w, "%d commits recomputed, %d mismatches; %d of others, whose inputs nothing records, searched for what they undo", report.Commits, len(report.Mismatches), report.Unchecked)
	}); err != nil {
		return err
	}
	if len(report.Mismatches) > 0 {
		return errNo
	}
	return nil
}

// span is what a person means by a range: FROM..TO, either of which may be left
// out, or a commit with all its history. Nothing is main. Names and commits are
// looked up in the hub, then in the clone that it belongs to.
func (p *place) span(ctx context.Context, text string) (repo *git.Repo, from, to git.Hash, err error) {
	older, newer, two := strings.Cut(text, "..")
	if !two {
		older, newer = "", text
	}
	if strings.HasPrefix(newer, ".") || strings.Contains(newer, "..") {
		return nil, "", "", usagef("audit: %q: a range is FROM..TO", text)
	}
	repos := []*git.Repo{p.hub.Repo}
	if p.hub.Clone() != nil {
		repos = append(repos, p.hub.Clone())
		if strings.HasPrefix(newer, "HEAD") {
			slices.Reverse(repos) // of the working tree that the person stands in
		}
	}
	if to = p.tip; newer != "" {
		if to, err = named(ctx, repos, newer); err != nil {
			return nil, "", "", usagef("audit: %v", err)
		}
	}
	if older != "" {
		if from, err = named(ctx, repos, older); err != nil {
			return nil, "", "", usagef("audit: %v", err)
		}
	}
	for _, repo := range repos {
		_, err = repo.Commit(to)
		if err == nil && !from.IsZero() {
			_, err = repo.Commit(from)
		}
		if err == nil {
			return repo, from, to, nil
		}
	}
	return nil, "", "", usagef("audit: %q: the two ends are not in one repository: fetch first", text)
}

// named is the commit that a name stands for in the first repository that knows it.
func named(ctx context.Context, repos []*git.Repo, name string) (found git.Hash, err error) {
	for _, repo := range repos {
		if found, err = repo.RevParse(ctx, name); err == nil {
			return found, nil
		}
	}
	return "", err
}
