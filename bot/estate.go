package bot

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v66/github"

	"greenward/bot/forge"
)

// Repository is one that an installation of the App gives it.
type Repository struct {
	ID           int64 // which it keeps, whatever it is called
	Private      bool
	Owner, Name  string
	Clone        string // its address for git
	Default      string // its default branch
	Installation int64
}

// Repositories lists all that the App's installations give it and that can be
// served: not those that are archived or disabled, and none of an installation that
// is suspended. Of cfg only the API and the App are looked at.
func Repositories(ctx context.Context, cfg Config) ([]Repository, error) {
	cfg = cfg.withDefaults()
	app, asApp, err := cfg.asApp(cfg.Transport)
	if err != nil {
		return nil, err
	}
	all, _, err := forge.Listing(func(o github.ListOptions) ([]*github.Installation, *github.Response, error) {
		return asApp.Apps.ListInstallations(ctx, &o)
	})
	if err != nil {
		return nil, fmt.Errorf("list the installations: %w", err)
	}
	var list []Repository
	for _, one := range all {
		if one.SuspendedAt != nil {
			continue
		}
		gh, err := cfg.open(ghinstallation.NewFromAppsTransport(app, one.GetID()))
		if err != nil {
			return nil, err
		}
		repos, _, err := forge.Listing(func(o github.ListOptions) ([]*github.Repository, *github.Response, error) {
			page, resp, err := gh.Apps.ListRepos(ctx, &o)
			if err != nil {
				return nil, resp, err
			}
			return page.Repositories, resp, nil
		})
		if err != nil {
			return nil, fmt.Errorf("list the repositories of installation %d: %w", one.GetID(), err)
		}
		for _, r := range repos {
			owner, name, ok := strings.Cut(r.GetFullName(), "/")
			if ok && !r.GetArchived() && !r.GetDisabled() {
				list = append(list, Repository{r.GetID(), r.GetPrivate(), owner, name, r.GetCloneURL(), r.GetDefaultBranch(), one.GetID()})
			}
		}
	}
	return list, nil
}

// Path is owner/name.
func (r Repository) Path() string { return r.Owner + "/" + r.Name }

// Proof is one thing that Prove looked at.
type Proof struct {
	Name   string
	OK     bool
	Detail string
	Cure   string
}

// needed are the permissions without which the App cannot work, and what they are for.
func needed() []struct{ name, level, why string } {
	return []struct{ name, level, why string }{
		{"issues", "write", "commands and comments"},
		{"pull_requests", "write", "reading and closing pull requests"},
		{"contents", "write", "landing"},
		{"checks", "write", "check runs; without it commit statuses are written"},
		{"statuses", "read", "verdicts of other CI"},
	}
}

// Prove looks whether the App can do its work on a repository: that its key is
// right, the clock is near GitHub's, it is installed with what it needs, its events
// come, and the last deliveries were taken. hook is where deliveries should go; "":
// wherever they go.
func Prove(ctx context.Context, cfg Config, hook string) ([]Proof, error) {
	if err := cfg.access(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if cfg.App == 0 {
		return proveToken(ctx, cfg)
	}
	app, asApp, bad := cfg.asApp(cfg.Transport)
	if bad != nil {
		return []Proof{{"github key", false, bad.Error(), "set GREENWARD_GITHUB_PRIVATE_KEY, or ..._FILE, to the .pem that GitHub gave"}}, nil //nolint:nilerr // what went wrong is the finding
	}
	me, resp, bad := asApp.Apps.Get(ctx, "")
	if bad != nil {
		return []Proof{{"github app", false, bad.Error(), "the id and the key must belong together, and this clock must be right to the minute"}}, nil //nolint:nilerr // what went wrong is the finding
	}
	proofs := []Proof{{"github app", true, me.GetSlug() + ", App " + fmt.Sprint(me.GetID()), ""}}
	if now, err := forge.Clock(resp); err == nil && cfg.Now != nil {
		off := cfg.Now().Sub(now).Abs()
		proofs = append(proofs, Proof{"github clock", off.Seconds() < 60, fmt.Sprintf("%.0f s from GitHub's", off.Seconds()), "set this machine's clock (NTP): GitHub refuses what is signed in its future"})
	}
	found, bad := cfg.installation(ctx, asApp)
	if bad != nil {
		return append(proofs, Proof{"github installation", false, bad.Error(), "install the App on " + cfg.Owner + "/" + cfg.Name}), nil //nolint:nilerr // what went wrong is the finding
	}
	gh, err := cfg.open(ghinstallation.NewFromAppsTransport(app, found.GetID()))
	if err != nil {
		return nil, err
	}
	return append(proofs, proveRights(found), proveBranch(ctx, forge.Repo{Client: gh, Owner: cfg.Owner, Name: cfg.Name}, cfg.Main), proveHook(ctx, asApp, hook)), nil
}

func proveRights(found *github.Installation) Proof {
	c := &client{}
	c.learn(found)
	var lacks []string
	for _, n := range needed() {
		if c.rights != nil && !c.rights[n.name] && (n.level == "write" || found.GetPermissions().GetStatuses() == "") {
			lacks = append(lacks, n.name+" ("+n.level+"): "+n.why)
		}
	}
	if len(lacks) > 0 {
		return Proof{"github permissions", false, "missing: " + strings.Join(lacks, "; "), "grant them in the App's settings; the owner of the installation has to accept"}
	}
	detail := "all that is needed"
	if c.rights != nil && !c.rights["workflows"] {
		detail += "; not workflows: pull requests that change .github/workflows wait"
	}
	var deaf []string
	for _, event := range subscribed() {
		if !slices.Contains(found.Events, event) {
			deaf = append(deaf, event)
		}
	}
	if len(deaf) > 0 {
		detail += "; not subscribed to " + strings.Join(deaf, ", ") + ": such news cost a poll period"
	}
	return Proof{"github permissions", true, detail, ""}
}

// proveBranch looks for rules by which GitHub would refuse what has landed.
func proveBranch(ctx context.Context, repo forge.Repo, branch string) Proof {
	const name = "github branch"
	list, err := repo.Refusals(ctx, branch)
	if err != nil {
		return Proof{name, false, err.Error(), "what " + branch + " demands of a push is not known"}
	}
	if len(list) > 0 {
		return Proof{name, false, branch + " demands " + strings.Join(list, "; ") + ": GitHub would refuse what has landed", "let the App bypass the rule (Settings, Rules), or demand the checks in .greenward.yml instead: what lands is held to the pull request's checks all the same"}
	}
	return Proof{name, true, branch + " has no rule that refuses our pushes", ""}
}

// proveHook compares where deliveries go and reads how the last ones were answered. An
// App without any delivery proves nothing: GitHub sends one when it is installed.
func proveHook(ctx context.Context, asApp *github.Client, hook string) Proof {
	const name = "github webhook"
	hc, _, err := asApp.Apps.GetHookConfig(ctx)
	if err != nil {
		return Proof{name, false, err.Error(), "set the webhook of the App to where this server's /webhook is reached"}
	}
	at := hc.GetURL()
	switch {
	case at == "":
		return Proof{name, false, "the App has none", "set it to where this server's /webhook is reached"}
	case hook != "" && at != hook:
		return Proof{name, false, "goes to " + at, "set it to " + hook}
	}
	list, _, err := asApp.Apps.ListHookDeliveries(ctx, &github.ListCursorOptions{PerPage: 20})
	if err != nil {
		return Proof{name, false, err.Error(), "its deliveries cannot be listed"}
	}
	if len(list) == 0 {
		return Proof{name, false, "goes to " + at + ", and nothing was ever delivered", "comment on an issue of the repository, and ask once more"}
	}
	bad := 0
	for _, d := range list {
		if code := d.GetStatusCode(); code < 200 || code > 299 {
			bad++
		}
	}
	switch {
	case bad == 0:
		return Proof{name, true, fmt.Sprintf("goes to %s, and the last %d deliveries were taken", at, len(list)), ""}
	case list[0].GetStatusCode() >= 200 && list[0].GetStatusCode() <= 299:
		return Proof{name, true, fmt.Sprintf("goes to %s; the newest delivery was taken, %d of the last %d were not: what they told was found by the poll", at, bad, len(list)), ""}
	}
	return Proof{name, false, fmt.Sprintf("%d of the last %d deliveries were not taken, the newest: %s", bad, len(list), list[0].GetStatus()), "401: the secrets differ; else GitHub cannot reach " + at}
}

func proveToken(ctx context.Context, cfg Config) ([]Proof, error) {
	gh, err := cfg.open(cfg.Transport)
	if err != nil {
		return nil, err
	}
	repo, _, bad := gh.WithAuthToken(cfg.Token.Reveal()).Repositories.Get(ctx, cfg.Owner, cfg.Name)
	if bad != nil {
		return []Proof{{"github token", false, bad.Error(), "give one that may read and write " + cfg.Owner + "/" + cfg.Name}}, nil //nolint:nilerr // what went wrong is the finding
	}
	if !repo.GetPermissions()["push"] {
		return []Proof{{"github token", false, "may not push to " + repo.GetFullName(), "give one with write permission"}}, nil
	}
	return []Proof{{"github token", true, "may push to " + repo.GetFullName(), ""}}, nil
}
