package forge

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/go-github/v66/github"

	"greenward/bot/forge/gate"
)

// runs are the newest check runs and statuses on a head.
func (c Repo) runs(ctx context.Context, head string) ([]gate.Run, error) {
	checks, resp, err := Listing(func(o github.ListOptions) ([]*github.CheckRun, *github.Response, error) {
		page, resp, err := c.Checks.ListCheckRunsForRef(ctx, c.Owner, c.Name, head, &github.ListCheckRunsOptions{ListOptions: o})
		if err != nil {
			return nil, resp, err
		}
		return page.CheckRuns, resp, nil
	})
	if err != nil && !Absent(resp) {
		return nil, fmt.Errorf("list the check runs: %w", err)
	}
	var list []gate.Run
	for _, r := range checks {
		if r.GetHeadSHA() != head {
			continue // a pass is of the commit that it names, whatever was asked for
		}
		one := gate.Run{Name: r.GetName(), App: r.GetApp().GetID(), ID: r.GetID(), Conclusion: r.GetConclusion(), Done: r.GetStatus() == "completed"}
		if one.Done && one.Conclusion == "skipped" && r.GetCheckSuite().GetID() != 0 {
			suite, _, err := c.Checks.GetCheckSuite(ctx, c.Owner, c.Name, r.GetCheckSuite().GetID())
			if err != nil {
				return nil, fmt.Errorf("read the suite of %q: %w", one.Name, err)
			}
			one.Whole = suite.GetConclusion()
		}
		list = append(list, one)
	}
	statuses, resp, err := Listing(func(o github.ListOptions) ([]*github.RepoStatus, *github.Response, error) {
		whole, resp, err := c.Repositories.GetCombinedStatus(ctx, c.Owner, c.Name, head, &o)
		if err != nil {
			return nil, resp, err
		}
		return whole.Statuses, resp, nil
	})
	if err != nil && !Absent(resp) {
		return nil, fmt.Errorf("read the statuses: %w", err)
	}
	for _, s := range statuses {
		list = append(list, gate.Run{Name: s.GetContext(), ID: s.GetID(), Conclusion: s.GetState(), Done: s.GetState() != "pending"})
	}
	return list, nil
}

// reviews are those of a pull request, with whether their authors may write.
func (c Repo) reviews(ctx context.Context, number int, writes func(context.Context, *github.User) (bool, error)) ([]gate.Review, error) {
	all, _, err := Listing(func(o github.ListOptions) ([]*github.PullRequestReview, *github.Response, error) {
		return c.PullRequests.ListReviews(ctx, c.Owner, c.Name, number, &o)
	})
	if err != nil {
		return nil, fmt.Errorf("list the reviews: %w", err)
	}
	var list []gate.Review
	for _, r := range all {
		if r.GetUser().GetID() == 0 {
			continue // its account is gone: nobody stands for it
		}
		write, err := writes(ctx, r.GetUser())
		if err != nil {
			return nil, err
		}
		list = append(list, gate.Review{By: r.GetUser().GetID(), ID: r.GetID(), State: r.GetState(), Head: r.GetCommitID(), Write: write})
	}
	return list, nil
}

// blocked asks GitHub itself, where not all that it demands can be read.
func (c Repo) blocked(ctx context.Context, number int, unread []string) ([]string, error) {
	pr, _, err := c.PullRequests.Get(ctx, c.Owner, c.Name, number)
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
func (c Repo) workflows(ctx context.Context, number int) ([]string, error) {
	files, _, err := Listing(func(o github.ListOptions) ([]*github.CommitFile, *github.Response, error) {
		return c.PullRequests.ListFiles(ctx, c.Owner, c.Name, number, &o)
	})
	if err != nil {
		return nil, fmt.Errorf("list its files: %w", err)
	}
	for _, f := range files {
		for _, name := range []string{f.GetFilename(), f.GetPreviousFilename()} {
			if strings.HasPrefix(name, ".github/workflows/") {
				return []string{"It changes `" + strings.ReplaceAll(name, "`", "'") + "`, and GitHub refuses that from an App without the permission Workflows (read and write): grant it in the App's settings."}, nil
			}
		}
	}
	return nil, nil
}
