package forge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-github/v66/github"

	"greenward/bot/forge/gate"
)

// Own is the name of our check run on a pull request's head.
const Own = "greenward"

// Book keeps what base branches demand, read once a period. Not safe for concurrent use.
type Book struct {
	Period time.Duration
	App    int64 // ours; 0: a token
	known  map[string]*rules
}

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

// Extra is what is demanded besides the rules of the branch.
type Extra struct {
	Checks      []string
	BlockLabels []string
	Reviews     int
	DropStale   bool
	Checked     bool // something else checks what lands, or nothing is meant to
}

// Pull is the pull request that is looked at.
type Pull struct {
	Number     int
	Base, Head string
	Author     int64
	Labels     []string
	Since      time.Time // when it was approved
	Workflows  bool      // a change of workflow files may be pushed
	Building   bool      // see gate.Pull
	Writes     func(context.Context, *github.User) (bool, error)
}

// Missing lists what a pull request lacks by the rules of its base branch and by
// what is demanded besides, each as one sentence.
func (b *Book) Missing(ctx context.Context, c Repo, p Pull, more Extra, now time.Time) ([]string, error) {
	r, err := b.of(ctx, c, p.Base, now)
	if err != nil {
		return nil, err
	}
	demands := r.Rules
	for _, name := range more.Checks {
		demands.Checks = append(demands.Checks, gate.Check{Name: name})
	}
	demands.BlockLabels = more.BlockLabels
	demands.Reviews = max(demands.Reviews, more.Reviews)
	demands.DropStale = demands.DropStale || more.DropStale
	look := gate.Pull{Head: p.Head, Author: p.Author, Labels: p.Labels, Since: p.Since, Building: p.Building}
	if len(demands.Checks) > 0 && !p.Building {
		if look.Runs, err = c.runs(ctx, p.Head); err != nil {
			return nil, err
		}
	}
	if demands.Reviews > 0 {
		if look.Reviews, err = c.reviews(ctx, p.Number, p.Writes); err != nil {
			return nil, err
		}
	}
	list := gate.Missing(demands, look, now)
	if !more.Checked && !p.Building && len(demands.Checks) == 0 {
		list = append(list, "No check is required of what lands, neither by the rules of `"+strings.ReplaceAll(p.Base, "`", "'")+"` nor by a policy, so it would land unproven. "+
			"Add checks to `.greenward.yml` (`greenward init` writes it), or say there that none is meant: `checks: none`.")
	}
	if len(list) == 0 && len(r.Unread) > 0 && !r.own {
		if list, err = c.blocked(ctx, p.Number, r.Unread); err != nil {
			return nil, err
		}
	}
	if len(list) == 0 && !p.Workflows {
		if list, err = c.workflows(ctx, p.Number); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// of reads the rules of a branch, once a period.
func (b *Book) of(ctx context.Context, c Repo, branch string, now time.Time) (*rules, error) {
	if r := b.known[branch]; r != nil && now.Sub(r.read) < b.Period {
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
		if check.Name == Own && (check.App == 0 || check.App == b.App) {
			r.own = true
		} else if !seen[check] {
			seen[check] = true
			kept = append(kept, check)
		}
	}
	r.Checks = kept
	if b.known == nil {
		b.known = map[string]*rules{}
	}
	b.known[branch] = r
	return r, nil
}

// readRules reads rulesets; that takes no more than to see the repository.
func (c Repo) readRules(ctx context.Context, r *rules, branch string) error {
	list, resp, err := Listing(func(o github.ListOptions) ([]ruleJSON, *github.Response, error) {
		var page []ruleJSON
		resp, err := c.Read(ctx, fmt.Sprintf("repos/%s/%s/rules/branches/%s?per_page=%d&page=%d", c.Owner, c.Name, url.PathEscape(branch), o.PerPage, max(o.Page, 1)), &page)
		return page, resp, err
	})
	if Absent(resp) {
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
func (c Repo) passes(ctx context.Context, ruleset int64) (bool, error) {
	var v struct {
		Bypass string `json:"current_user_can_bypass"`
	}
	resp, err := c.Read(ctx, fmt.Sprintf("repos/%s/%s/rulesets/%d", c.Owner, c.Name, ruleset), &v)
	if Absent(resp) || Refused(resp) {
		return false, nil
	}
	return v.Bypass == "always", err
}

// readProtection reads classic protection: its checks from the branch, its reviews
// where the App may see them.
func (c Repo) readProtection(ctx context.Context, r *rules, branch string) error {
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
	resp, err := c.Read(ctx, fmt.Sprintf("repos/%s/%s/branches/%s", c.Owner, c.Name, url.PathEscape(branch)), &v)
	if Absent(resp) {
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
	whole, resp, err := c.Repositories.GetBranchProtection(ctx, c.Owner, c.Name, branch)
	switch {
	case errors.Is(err, github.ErrBranchNotProtected) || Absent(resp):
	case Refused(resp) && !TroubleOf(err).Limited:
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
