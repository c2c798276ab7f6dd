// Package herald tells GitHub how green stands: a commit status on green itself, a
// release or a deployment where the policy asks for one, and an issue while green is
// stale, which it closes again.
//
// It owns what is said of green, and no limit: each Act is one write, for which its
// caller takes a turn. Everything is read from the state at hand, so that an act that
// was lost or done twice changes nothing in the end.
package herald

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-github/v66/github"

	"greenward/internal/git"
)

// What is announced of a promotion, by the policy's green.announce.
const (
	None       = "none"
	Release    = "release"    // of each promotion that has a tag
	Deployment = "deployment" // to the environment "green", of each promotion
)

// statusContext is the name of the status on green: what a release pipeline can require.
const statusContext = "greenward/green"

// Green is how green stands.
type Green struct {
	Commit    git.Hash // zero: there is none yet
	Public    bool     // GitHub has it
	Snapshot  git.Hash
	Repair    string
	Checks    []string // as the statement has them
	Excludes  []string
	Tag       string // the newest promotion with one; "": none has
	Tagged    git.Hash
	Announce  string
	Stale     bool
	Behind    int
	Lag       time.Duration
	Cause     string // what holds it up most
	Hold      string
	Statement string // of the promotion that Tag is on
}

// Told is what GitHub was told already.
type Told struct {
	Status   git.Hash `json:"status,omitempty"`
	Release  string   `json:"release,omitempty"`
	Deployed git.Hash `json:"deployed,omitempty"`
	Issue    int      `json:"issue,omitempty"` // the alert's, open or closed
	Open     bool     `json:"open,omitempty"`
	Text     string   `json:"text,omitempty"` // digest of what the alert says
}

// Teller tells one repository.
type Teller struct {
	Client      *github.Client // required
	Owner, Name string         // required
	Self        string         // the login that our issues are made by; "": unknown
}

// Act is one write. Do is nil-safe to repeat.
type Act struct {
	What string
	Do   func(ctx context.Context, t Teller) error
}

// Acts lists what GitHub does not show yet, and notes in told what was done as it is
// done. may says whether the App has a permission.
func Acts(g Green, told *Told, may func(permission string) bool) (list []Act) {
	add := func(what string, do func(ctx context.Context, t Teller) error) { list = append(list, Act{what, do}) }
	alert := alertText(g)
	switch {
	case g.Stale && (!told.Open || told.Text != digest(alert)):
		add("raise the alert that green is stale", func(ctx context.Context, t Teller) error { return t.raise(ctx, told, alert) })
	case !g.Stale && told.Open:
		add("close the alert that green is stale", func(ctx context.Context, t Teller) error { return t.lower(ctx, told, g) })
	}
	if g.Commit.IsZero() || !g.Public {
		return list
	}
	if told.Status != g.Commit && may("statuses") {
		add("set the status of green", func(ctx context.Context, t Teller) error { return t.status(ctx, told, g) })
	}
	if g.Announce == Release && g.Tag != "" && told.Release != g.Tag && may("contents") {
		add("make the release "+g.Tag, func(ctx context.Context, t Teller) error { return t.release(ctx, told, g) })
	}
	if g.Announce == Deployment && told.Deployed != g.Commit && may("deployments") {
		add("note the deployment of green", func(ctx context.Context, t Teller) error { return t.deploy(ctx, told, g) })
	}
	return list
}

func (t Teller) status(ctx context.Context, told *Told, g Green) error {
	text := fmt.Sprintf("Promoted from %s, repair %s, %d checks", g.Snapshot.Short(), g.Repair, len(g.Checks))
	_, _, err := t.Client.Repositories.CreateStatus(ctx, t.Owner, t.Name, string(g.Commit), &github.RepoStatus{
		State: new("success"), Context: new(statusContext), Description: &text,
	})
	if err != nil {
		return fmt.Errorf("set it on %s: %w", g.Commit.Short(), err)
	}
	told.Status = g.Commit
	return nil
}

// release makes the release of a tag that green's push has put there. One that is
// there already was made by an earlier life, or by a person.
func (t Teller) release(ctx context.Context, told *Told, g Green) error {
	_, resp, err := t.Client.Repositories.CreateRelease(ctx, t.Owner, t.Name, &github.RepositoryRelease{
		TagName: &g.Tag, TargetCommitish: new(string(g.Tagged)), Name: &g.Tag, Body: &g.Statement,
	})
	if err != nil && !exists(resp, err) {
		return fmt.Errorf("make it: %w", err)
	}
	told.Release = g.Tag
	return nil
}

func exists(resp *github.Response, err error) bool {
	e, ok := errors.AsType[*github.ErrorResponse](err)
	if !ok || resp == nil || resp.StatusCode != http.StatusUnprocessableEntity {
		return false
	}
	for _, one := range e.Errors {
		if one.Code == "already_exists" {
			return true
		}
	}
	return false
}

// environment is where deployments of green go.
const environment = "green"

// deploy notes that green is there to be deployed, as a deployment that has succeeded.
func (t Teller) deploy(ctx context.Context, told *Told, g Green) error {
	there, _, err := t.Client.Repositories.ListDeployments(ctx, t.Owner, t.Name, &github.DeploymentsListOptions{SHA: string(g.Commit), Environment: environment})
	if err != nil {
		return fmt.Errorf("look it up: %w", err)
	}
	var id int64
	for _, d := range there {
		id = max(id, d.GetID())
	}
	if id == 0 {
		made, _, err := t.Client.Repositories.CreateDeployment(ctx, t.Owner, t.Name, &github.DeploymentRequest{
			Ref: new(string(g.Commit)), Environment: new(environment), AutoMerge: new(false), RequiredContexts: &[]string{}, Description: new("green moved"),
		})
		if err != nil {
			return fmt.Errorf("make it: %w", err)
		}
		id = made.GetID()
	}
	if _, _, err := t.Client.Repositories.CreateDeploymentStatus(ctx, t.Owner, t.Name, id, &github.DeploymentStatusRequest{State: new("success")}); err != nil {
		return fmt.Errorf("set its status: %w", err)
	}
	told.Deployed = g.Commit
	return nil
}

const alertTitle = "green is stale"

func (t Teller) mark() string { return fmt.Sprintf("<!-- greenward:alert/%s/%s -->", t.Owner, t.Name) }

// alertText is the alert without what changes by the minute: it is edited when its
// cause changes, and no oftener.
func alertText(g Green) string {
	text := "Green has not moved for longer than `green.stale_after` allows, and main has gone on.\n\n"
	if g.Cause != "" {
		text += "What holds it up most: **" + g.Cause + "**.\n\n"
	}
	if g.Hold != "" {
		text += "Green is held: `" + strings.ReplaceAll(g.Hold, "`", "'") + "`.\n\n"
	}
	return text + "`greenward green why` tells more. This issue closes itself when green has caught up."
}

// raise opens the alert's issue, or edits it. The one of before is opened again.
func (t Teller) raise(ctx context.Context, told *Told, text string) error {
	body := text + "\n" + t.mark()
	if told.Issue == 0 {
		number, err := t.find(ctx)
		if err != nil {
			return err
		}
		told.Issue = number
	}
	if told.Issue == 0 {
		made, _, err := t.Client.Issues.Create(ctx, t.Owner, t.Name, &github.IssueRequest{Title: new(alertTitle), Body: &body})
		if err != nil {
			return fmt.Errorf("open the issue: %w", err)
		}
		told.Issue = made.GetNumber()
	} else if _, resp, err := t.Client.Issues.Edit(ctx, t.Owner, t.Name, told.Issue, &github.IssueRequest{Body: &body, State: new("open")}); err != nil {
		if resp != nil && (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone) {
			told.Issue = 0 // deleted: another one the next time
		}
		return fmt.Errorf("edit the issue: %w", err)
	}
	told.Open, told.Text = true, digest(text)
	return nil
}

// find looks up an alert that an earlier life opened, so that there is one.
func (t Teller) find(ctx context.Context) (int, error) {
	list, _, err := t.Client.Issues.ListByRepo(ctx, t.Owner, t.Name, &github.IssueListByRepoOptions{State: "all", Creator: t.Self, ListOptions: github.ListOptions{PerPage: 100}})
	if err != nil {
		return 0, fmt.Errorf("look the issue up: %w", err)
	}
	for _, i := range list {
		if strings.HasSuffix(strings.TrimSpace(i.GetBody()), t.mark()) && (t.Self == "" || i.GetUser().GetLogin() == t.Self) {
			return i.GetNumber(), nil
		}
	}
	return 0, nil
}

func (t Teller) lower(ctx context.Context, told *Told, g Green) error {
	body := fmt.Sprintf("Green has caught up: it stands at %s.\n%s", g.Commit, t.mark())
	_, resp, err := t.Client.Issues.Edit(ctx, t.Owner, t.Name, told.Issue, &github.IssueRequest{Body: &body, State: new("closed")})
	if resp != nil && (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone) {
		*told = Told{Status: told.Status, Release: told.Release, Deployed: told.Deployed}
		return nil
	}
	if err != nil {
		return fmt.Errorf("close the issue: %w", err)
	}
	told.Open, told.Text = false, ""
	return nil
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}
