package forge

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-github/v66/github"
)

// refusing are the rules by which GitHub refuses a push of commits that it has not seen
// before, with what it takes them for.
func refusing(kind string) string {
	return map[string]string{
		"required_status_checks": "checks that have passed on what is pushed",
		"pull_request":           "that changes come by pull requests alone",
		"merge_queue":            "its own merge queue",
		"required_signatures":    "signed commits",
		"update":                 "that only those push who may pass the rule by",
		"required_deployments":   "deployments of what is pushed",
		"workflows":              "workflows that have passed on what is pushed",
		"code_scanning":          "scans of what is pushed",
	}[kind]
}

// Refusals says why GitHub would refuse our pushes to a branch: rules that we do not
// pass by, each in a few words. Empty: none that can be read does.
func (r Repo) Refusals(ctx context.Context, branch string) ([]string, error) {
	var list []string
	demanded, resp, err := Listing(func(o github.ListOptions) ([]ruleJSON, *github.Response, error) {
		var page []ruleJSON
		resp, err := r.Read(ctx, fmt.Sprintf("repos/%s/%s/rules/branches/%s?per_page=%d&page=%d", r.Owner, r.Name, url.PathEscape(branch), o.PerPage, max(o.Page, 1)), &page)
		return page, resp, err
	})
	if err != nil && !Absent(resp) {
		return nil, fmt.Errorf("read the rules of %s: %w", branch, err)
	}
	for _, one := range demanded {
		why := refusing(one.Type)
		if why == "" || slices.Contains(list, why) {
			continue
		}
		passes, err := r.passes(ctx, one.Ruleset)
		if err != nil {
			return nil, fmt.Errorf("read ruleset %d: %w", one.Ruleset, err)
		}
		if !passes {
			list = append(list, why)
		}
	}
	var classic rules
	if err := r.readProtection(ctx, &classic, branch); err != nil {
		return nil, fmt.Errorf("read the protection of %s: %w", branch, err)
	}
	var names []string
	for _, c := range classic.Checks {
		names = append(names, c.Name)
	}
	if len(names) > 0 {
		list = append(list, "by its classic protection, which an App cannot pass by, the checks "+strings.Join(names, ", ")+" on what is pushed")
	}
	return list, nil
}
