package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"
	"greenward/workflows"
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

func (a *app) audit(ctx context.Context, span string) (err error) {
	p, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	if log, err := p.hub.Tip(git.QueueLog); err != nil {
		return err
	} else if !log.IsZero() || p.hub.Clone() != nil { // else a repository that greenward has nothing to do with
		if p, err = a.withHeads(ctx); err != nil {
			return err
		}
	}
	in, err := p.span(ctx, span)
	if err != nil {
		return err
	}
	leave, borrowErr := in.borrow(ctx)
	defer func() { err = errors.Join(err, leave()) }()
	if borrowErr != nil {
		return borrowErr
	}
	if !in.From.IsZero() && in.From != in.To {
		turned, err := in.Repo.IsAncestor(ctx, in.To, in.From)
		if err != nil {
			return err
		}
		if turned {
			return usagef("audit: %q holds no commit: the older end comes first", span)
		}
	}
	report, err := queue.AuditRange(ctx, in.AuditInput)
	if err != nil {
		return err
	}
	if err := a.print(report, func(w io.Writer) { showAudit(w, report) }); err != nil {
		return err
	}
	if len(report.Mismatches) > 0 || report.Missing > 0 {
		return errNo
	}
	return nil
}

func showAudit(w io.Writer, r queue.AuditReport) {
	for _, m := range r.Mismatches {
		line(w, "mismatch %s", m.Commit)
		line(w, "  expected %s", m.Expected)
		line(w, "  actual   %s", m.Actual)
	}
	if r.Missing > 0 {
		line(w, "%s could NOT be recomputed: the queue landed them, but what was submitted is neither here nor at the remote under %s; greenward land on the hub that landed them pushes it",
			many(r.Missing, "commit"), journal.Heads)
	}
	line(w, "%d commits recomputed, %d mismatches; %d of others, whose inputs nothing records, searched for what they undo", r.Commits, len(r.Mismatches), r.Unchecked)
}

// withHeads is a current place that also has what was submitted to other hubs of the
// remote, as far as that answers.
func (a *app) withHeads(ctx context.Context) (*place, error) {
	p, err := a.current(ctx)
	if err != nil {
		return nil, err
	}
	x := &workflows.Exchange{Hub: p.hub, Main: p.main, Green: p.green, Now: a.now}
	if err := x.TakeHeads(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		a.note("greenward: what was submitted to other hubs of %s is not known: %v", p.hub.Upstream(), err)
	}
	return p, nil
}

// auditSpan is what to audit; its Repo is a scratch one, see borrow.
type auditSpan struct {
	queue.AuditInput
}

// borrow makes a repository that has the objects of all that are asked, so that
// nothing is written into them, and who may only read them can audit; leave removes it.
func (s *auditSpan) borrow(ctx context.Context) (leave func() error, err error) {
	dir, err := os.MkdirTemp("", "greenward-audit-")
	leave = func() error { return os.RemoveAll(dir) }
	if err != nil {
		return leave, fmt.Errorf("make a place to audit in: %w", err)
	}
	repo, err := git.InitBare(ctx, filepath.Join(dir, "scratch.git"), s.Records[0].Host())
	if err != nil {
		return leave, fmt.Errorf("make a place to audit in: %w", err)
	}
	var all strings.Builder
	for _, record := range s.Records {
		objects, err := record.Objects(ctx)
		if err != nil {
			return leave, fmt.Errorf("make a place to audit in: %w", err)
		}
		line(&all, "%s", objects)
	}
	if err := os.WriteFile(filepath.Join(repo.Dir(), "objects", "info", "alternates"), []byte(all.String()), 0o600); err != nil {
		return leave, fmt.Errorf("make a place to audit in: %w", err)
	}
	s.Repo = repo
	return leave, nil
}

// span is what a person means by a range: FROM..TO, either of which may be left
// out, or a commit with all its history. Nothing is main. Names and commits are
// looked up in the hub, then in the clone that it belongs to; one that begins with
// HEAD is of the working tree that the person stands in.
func (p *place) span(ctx context.Context, text string) (s auditSpan, err error) {
	older, newer, two := strings.Cut(text, "..")
	if !two {
		older, newer = "", text
	}
	if strings.HasPrefix(newer, ".") || strings.Contains(newer, "..") {
		return s, usagef("audit: %q: a range is FROM..TO", text)
	}
	repos := []*git.Repo{p.hub.Repo}
	if p.hub.Clone() != nil {
		repos = append(repos, p.hub.Clone())
	}
	find := func(name string) (git.Hash, error) {
		if len(repos) > 1 && strings.HasPrefix(name, "HEAD") {
			return named(ctx, []*git.Repo{repos[1], repos[0]}, name)
		}
		return named(ctx, repos, name)
	}
	if s.To = p.tip; newer != "" {
		if s.To, err = find(newer); err != nil {
			return s, usagef("audit: %v", err)
		}
	}
	if older != "" {
		if s.From, err = find(older); err != nil {
			return s, usagef("audit: %v", err)
		}
	}
	s.Records = repos
	return s, nil
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
