package forge

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/go-github/v66/github"

	"greenward/internal/git"
	"greenward/internal/verify"
)

// Verdicts reads every attempt of every check run on a commit, and every status
// that it ever got. A commit that GitHub does not have yet has none. What the App
// itself reports is left out: it would wait for itself. So is what speaks of another
// commit, and what GitHub's Actions ran for a pull request whose head is the same commit:
// that tested a merge, or nothing where drafts are skipped, and not this branch.
func (c Repo) Verdicts(ctx context.Context, commit git.Hash, branch string, app int64) ([]verify.Reported, error) {
	checks, resp, err := Listing(func(o github.ListOptions) ([]*github.CheckRun, *github.Response, error) {
		page, resp, err := c.Checks.ListCheckRunsForRef(ctx, c.Owner, c.Name, string(commit), &github.ListCheckRunsOptions{Filter: new("all"), ListOptions: o})
		if err != nil {
			return nil, resp, err
		}
		return page.CheckRuns, resp, nil
	})
	if Absent(resp) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the check runs: %w", err)
	}
	elsewhere := map[int64]bool{} // suites that ran for another branch
	if slices.ContainsFunc(checks, ofActions) {
		if elsewhere, err = c.elsewhere(ctx, commit, branch); err != nil {
			return nil, err
		}
	}
	var runs []verify.Reported
	for _, one := range checks {
		switch {
		case app != 0 && one.GetApp().GetID() == app:
		case one.GetHeadSHA() != string(commit):
		case ofActions(one) && elsewhere[one.GetCheckSuite().GetID()]:
		default:
			runs = append(runs, reportedRun(one))
		}
	}
	statuses, resp, err := Listing(func(o github.ListOptions) ([]*github.RepoStatus, *github.Response, error) {
		return c.Repositories.ListStatuses(ctx, c.Owner, c.Name, string(commit), &o)
	})
	if Absent(resp) {
		return runs, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the statuses: %w", err)
	}
	return append(runs, reportedStatuses(statuses)...), nil
}

// ofActions reports whether a run is a job of a workflow. Other Apps have one suite for
// each commit, whatever branches it is on, and test that very commit.
func ofActions(r *github.CheckRun) bool { return r.GetApp().GetSlug() == "github-actions" }

// elsewhere are the suites on a commit that ran for another branch.
func (c Repo) elsewhere(ctx context.Context, commit git.Hash, branch string) (map[int64]bool, error) {
	suites, _, err := Listing(func(o github.ListOptions) ([]*github.CheckSuite, *github.Response, error) {
		page, resp, err := c.Checks.ListCheckSuitesForRef(ctx, c.Owner, c.Name, string(commit), &github.ListCheckSuiteOptions{ListOptions: o})
		if err != nil {
			return nil, resp, err
		}
		return page.CheckSuites, resp, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the check suites: %w", err)
	}
	list := map[int64]bool{}
	for _, s := range suites {
		if at := s.GetHeadBranch(); at != "" && at != branch {
			list[s.GetID()] = true
		}
	}
	return list, nil
}

// reportedRun is a check run as the ledger takes it. A run that is not completed
// has no name of a conclusion, whatever an earlier attempt left there.
func reportedRun(r *github.CheckRun) verify.Reported {
	one := verify.Reported{
		Check: r.GetName(), ID: fmt.Sprintf("run-%d", r.GetID()), Detail: r.GetHTMLURL(),
		Started: r.GetStartedAt().Time, Finished: r.GetCompletedAt().Time,
	}
	if r.GetStatus() == "completed" {
		one.Conclusion = verify.Conclusion{Name: r.GetConclusion(), Reached: true}
	}
	return one
}

// reportedStatuses are the statuses, newest first, as the ledger takes them. A
// context that went from success back to pending is being run again. How long it took
// is not told.
func reportedStatuses(list []*github.RepoStatus) []verify.Reported {
	var runs []verify.Reported
	newest := map[string]bool{}
	for _, s := range list {
		first := !newest[s.GetContext()]
		newest[s.GetContext()] = true
		one := verify.Reported{
			Check: s.GetContext(), ID: "status-" + strconv.FormatInt(s.GetID(), 10), Detail: s.GetTargetURL(),
			Finished: s.GetUpdatedAt().Time, // and no start: each of its states is a status of its own
		}
		switch s.GetState() {
		case "success", "failure":
			one.Conclusion = verify.Conclusion{Name: s.GetState(), Reached: true}
		case "error":
			one.Conclusion = verify.Conclusion{Name: "startup_failure"}
		default:
			if !first {
				continue // it has ended since
			}
		}
		runs = append(runs, one)
	}
	return runs
}
