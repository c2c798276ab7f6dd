package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-github/v66/github"

	"greenward/bot/gate"
)

// rules are what a base branch demands, as read at a time.
type rules struct {
	gate.Rules
	own  bool // our own check is among what is required; it is left out, for it would wait for itself
	read time.Time
}

// ruleJSON is one rule as GitHub lists it; go-github knows fewer kinds.
type ruleJSON struct {
	Type       string          `json:"type"`
	Ruleset    int64           `json:"ruleset_id"`
	Parameters json.RawMessage `json:"parameters"`
}

// missing lists what a pull request lacks by the rules of its base branch, by
// bors.toml and by our own policy.
func (b *Bot) missing(ctx context.Context, c *client, number int, p *pull) ([]string, error) {
	r, err := b.rulesOf(ctx, c, p.Base)
	if err != nil {
		return nil, err
	}
	demands := r.Rules
	for _, name := range b.carry.PRStatus {
		demands.Checks = append(demands.Checks, gate.Check{Name: name})
	}
	demands.BlockLabels = b.carry.BlockLabels
	demands.Reviews = max(demands.Reviews, b.carry.Approvals)
	demands.DropStale = demands.DropStale || b.carry.UpToDate
	look := gate.Pull{Head: string(p.Head), Author: p.Author, Labels: p.Labels, Since: p.At}
	if len(demands.Checks) > 0 {
		if look.Runs, err = c.runs(ctx, string(p.Head)); err != nil {
			return nil, err
		}
	}
	if demands.Reviews > 0 {
		if look.Reviews, err = c.reviews(ctx, number); err != nil {
			return nil, err
		}
	}
	list := gate.Missing(demands, look, b.cfg.Now())
	if !b.checks && len(demands.Checks) == 0 {
		list = append(list, "No check is required of what lands, neither by the rules of "+code(p.Base)+" nor by a policy, so it would land unproven. "+
			"Add checks to `.greenward.yml` (`greenward init` writes it), or say there that none is meant: `checks: none`.")
	}
	if len(list) == 0 && len(r.Unread) > 0 && !r.own {
		if list, err = c.blocked(ctx, number, r.Unread); err != nil {
			return nil, err
		}
	}
	if len(list) == 0 && !c.may("workflows") {
		if list, err = c.workflows(ctx, number); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// rulesOf reads the rules of a branch, once a poll period.
func (b *Bot) rulesOf(ctx context.Context, c *client, branch string) (*rules, error) {
	now := b.cfg.Now()
	if r := b.rules[branch]; r != nil && now.Sub(r.read) < b.cfg.Poll {
		return r, nil
	}
	r := &rules{read: now}
	for _, read := range []func(context.Context, *rules, string) error{c.readRules, c.readProtection} {
		if err := read(ctx, r, branch); err != nil {
			return nil, fmt.Errorf("read the rules of %s: %w", branch, err)
		}
	}
	kept := r.Checks[:0]
	seen := map[gate.Check]bool{}
	for _, check := range r.Checks {
		if check.Name == checkName && (check.App == 0 || check.App == b.cfg.App) {
			r.own = true
		} else if !seen[check] {
			seen[check] = true
			kept = append(kept, check)
		}
	}
	r.Checks = kept
	b.rules[branch] = r
	return r, nil
}

// readRules reads rulesets; that takes no more than to see the repository.
func (c *client) readRules(ctx context.Context, r *rules, branch string) error {
	list, resp, err := listing(func(o github.ListOptions) ([]ruleJSON, *github.Response, error) {
		var page []ruleJSON
		resp, err := c.get(ctx, fmt.Sprintf("repos/%s/%s/rules/branches/%s?per_page=%d&page=%d", c.owner, c.name, url.PathEscape(branch), o.PerPage, max(o.Page, 1)), &page)
		return page, resp, err
	})
	if absent(resp) {
		return nil // an older Enterprise server
	}
	if err != nil {
		return err
	}
	for _, one := range list {
		var v struct {
			Checks []struct {
				Context string `json:"context"`
				App     int64  `json:"integration_id"`
			} `json:"required_status_checks"`
			Reviews    int  `json:"required_approving_review_count"`
			DropStale  bool `json:"dismiss_stale_reviews_on_push"`
			LastPusher bool `json:"require_last_push_approval"`
		}
		if len(one.Parameters) > 0 && json.Unmarshal(one.Parameters, &v) != nil {
			r.Unread = append(r.Unread, "the rule "+one.Type)
			continue
		}
		for _, check := range v.Checks {
			r.Checks = append(r.Checks, gate.Check{Name: check.Context, App: check.App})
		}
		r.Reviews = max(r.Reviews, v.Reviews)
		r.DropStale, r.LastPusher = r.DropStale || v.DropStale, r.LastPusher || v.LastPusher
		switch one.Type {
		case "merge_queue":
			passes, err := c.passes(ctx, one.Ruleset)
			if err != nil {
				return err
			}
			r.MergeQueue = r.MergeQueue || !passes
		case "required_deployments", "workflows", "code_scanning":
			r.Unread = append(r.Unread, "the rule "+one.Type)
		}
	}
	return nil
}

// passes reports whether we may pass a ruleset by.
func (c *client) passes(ctx context.Context, ruleset int64) (bool, error) {
	var v struct {
		Bypass string `json:"current_user_can_bypass"`
	}
	resp, err := c.get(ctx, fmt.Sprintf("repos/%s/%s/rulesets/%d", c.owner, c.name, ruleset), &v)
	if absent(resp) || refused(resp) {
		return false, nil
	}
	return v.Bypass == "always", err
}

// readProtection reads classic protection: its checks from the branch, its reviews
// where the App may see them.
func (c *client) readProtection(ctx context.Context, r *rules, branch string) error {
	var v struct {
		Protected  bool `json:"protected"`
		Protection struct {
			Checks struct {
				Level    string   `json:"enforcement_level"`
				Contexts []string `json:"contexts"`
				Checks   []struct {
					Context string `json:"context"`
					App     int64  `json:"app_id"`
				} `json:"checks"`
			} `json:"required_status_checks"`
		} `json:"protection"`
	}
	resp, err := c.get(ctx, fmt.Sprintf("repos/%s/%s/branches/%s", c.owner, c.name, url.PathEscape(branch)), &v)
	if absent(resp) {
		return nil
	}
	if err != nil {
		return err
	}
	if !v.Protected {
		return nil
	}
	checks := v.Protection.Checks
	pinned := map[string]bool{}
	if checks.Level != "off" {
		for _, one := range checks.Checks {
			pinned[one.Context] = true
			r.Checks = append(r.Checks, gate.Check{Name: one.Context, App: max(one.App, 0)})
		}
		for _, name := range checks.Contexts {
			if !pinned[name] {
				r.Checks = append(r.Checks, gate.Check{Name: name})
			}
		}
	}
	whole, resp, err := c.Repositories.GetBranchProtection(ctx, c.owner, c.name, branch)
	switch {
	case errors.Is(err, github.ErrBranchNotProtected) || absent(resp):
	case refused(resp) && !troubleOf(err).limited:
		r.Unread = append(r.Unread, "the reviews that the branch's protection demands")
	case err != nil:
		return err
	default:
		r.protect(whole, pinned)
	}
	return nil
}

func (r *rules) protect(p *github.Protection, known map[string]bool) {
	if reviews := p.RequiredPullRequestReviews; reviews != nil {
		r.Reviews = max(r.Reviews, reviews.RequiredApprovingReviewCount)
		r.DropStale, r.LastPusher = r.DropStale || reviews.DismissStaleReviews, r.LastPusher || reviews.RequireLastPushApproval
		if reviews.RequireCodeOwnerReviews {
			r.Unread = append(r.Unread, "reviews of code owners")
		}
	}
	if checks := p.RequiredStatusChecks; checks != nil && checks.Contexts != nil {
		for _, name := range *checks.Contexts {
			if !known[name] {
				r.Checks = append(r.Checks, gate.Check{Name: name})
			}
		}
	}
	if p.RequiredConversationResolution != nil && p.RequiredConversationResolution.Enabled {
		r.Unread = append(r.Unread, "conversations that must be resolved")
	}
}

// get reads what go-github has no method for, or a narrower one.
func (c *client) get(ctx context.Context, path string, v any) (*github.Response, error) {
	req, err := c.NewRequest(http.MethodGet, path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask for %s: %w", path, err)
	}
	return c.Do(ctx, req, v)
}

func refused(resp *github.Response) bool {
	return resp != nil && resp.StatusCode == http.StatusForbidden
}

// runs are the newest check runs and statuses on a head.
func (c *client) runs(ctx context.Context, head string) ([]gate.Run, error) {
	checks, resp, err := listing(func(o github.ListOptions) ([]*github.CheckRun, *github.Response, error) {
		page, resp, err := c.Checks.ListCheckRunsForRef(ctx, c.owner, c.name, head, &github.ListCheckRunsOptions{ListOptions: o})
		if err != nil {
			return nil, resp, err
		}
		return page.CheckRuns, resp, nil
	})
	if err != nil && !absent(resp) {
		return nil, fmt.Errorf("list the check runs: %w", err)
	}
	var list []gate.Run
	for _, r := range checks {
		one := gate.Run{Name: r.GetName(), App: r.GetApp().GetID(), ID: r.GetID(), Conclusion: r.GetConclusion(), Done: r.GetStatus() == "completed"}
		if one.Done && one.Conclusion == "skipped" && r.GetCheckSuite().GetID() != 0 {
			suite, _, err := c.Checks.GetCheckSuite(ctx, c.owner, c.name, r.GetCheckSuite().GetID())
			if err != nil {
				return nil, fmt.Errorf("read the suite of %q: %w", one.Name, err)
			}
			one.Whole = suite.GetConclusion()
		}
		list = append(list, one)
	}
	statuses, resp, err := listing(func(o github.ListOptions) ([]*github.RepoStatus, *github.Response, error) {
		whole, resp, err := c.Repositories.GetCombinedStatus(ctx, c.owner, c.name, head, &o)
		if err != nil {
			return nil, resp, err
		}
		return whole.Statuses, resp, nil
	})
	if err != nil && !absent(resp) {
		return nil, fmt.Errorf("read the statuses: %w", err)
	}
	for _, s := range statuses {
		list = append(list, gate.Run{Name: s.GetContext(), ID: s.GetID(), Conclusion: s.GetState(), Done: s.GetState() != "pending"})
	}
	return list, nil
}

// reviews are those of a pull request, with whether their authors may write.
func (c *client) reviews(ctx context.Context, number int) ([]gate.Review, error) {
	all, _, err := listing(func(o github.ListOptions) ([]*github.PullRequestReview, *github.Response, error) {
		return c.PullRequests.ListReviews(ctx, c.owner, c.name, number, &o)
	})
	if err != nil {
		return nil, fmt.Errorf("list the reviews: %w", err)
	}
	var list []gate.Review
	for _, r := range all {
		if r.GetUser().GetID() == 0 {
			continue // its account is gone: nobody stands for it
		}
		write, err := c.writes(ctx, r.GetUser())
		if err != nil {
			return nil, err
		}
		list = append(list, gate.Review{By: r.GetUser().GetID(), ID: r.GetID(), State: r.GetState(), Head: r.GetCommitID(), Write: write})
	}
	return list, nil
}

// blocked asks GitHub itself, where not all that it demands can be read.
func (c *client) blocked(ctx context.Context, number int, unread []string) ([]string, error) {
	pr, _, err := c.PullRequests.Get(ctx, c.owner, c.name, number)
	if err != nil {
		return nil, fmt.Errorf("read whether it may be merged: %w", err)
	}
	if pr.GetMergeableState() != "blocked" {
		return nil, nil
	}
	return []string{"GitHub says that merging is blocked. Not all that it demands can be read: " + strings.Join(unread, ", ") + "."}, nil
}

// workflows names the files of workflows that a pull request changes, which GitHub
// refuses to take from an App without that permission.
func (c *client) workflows(ctx context.Context, number int) ([]string, error) {
	files, _, err := listing(func(o github.ListOptions) ([]*github.CommitFile, *github.Response, error) {
		return c.PullRequests.ListFiles(ctx, c.owner, c.name, number, &o)
	})
	if err != nil {
		return nil, fmt.Errorf("list its files: %w", err)
	}
	for _, f := range files {
		for _, name := range []string{f.GetFilename(), f.GetPreviousFilename()} {
			if strings.HasPrefix(name, ".github/workflows/") {
				return []string{"It changes " + code(name) + ", and GitHub refuses that from an App without the permission Workflows (read and write): grant it in the App's settings."}, nil
			}
		}
	}
	return nil, nil
}
