package bot

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v66/github"

	"greenward/bot/command"
	"greenward/bot/forge"
	"greenward/bot/limit"
)

const defaultAPI = "https://api.github.com"

// client speaks to GitHub as one installation, or with one token.
type client struct {
	forge.Repo
	asApp  bool
	self   func(*github.User) bool // whether that is us
	slug   string                  // what the App is called by
	login  string                  // of what we write
	rights map[string]bool         // what the installation may write; nil: not known
	roles  map[int64]command.Role  // as of this reconcile
}

// counter counts the requests that pass through it.
type counter struct {
	b    *Bot
	next http.RoundTripper
}

// RoundTrip passes the request on.
func (c counter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	c.b.count(func(s *Stats) {
		s.Calls++
		if err != nil {
			return
		}
		if resp.StatusCode == http.StatusNotModified {
			s.Unchanged++
		}
		if n, err := strconv.Atoi(resp.Header.Get("X-RateLimit-Remaining")); err == nil {
			s.Remaining = n
		}
	})
	return resp, err
}

// connect returns the client, made anew after a refusal. b.mu is held.
func (b *Bot) connect(ctx context.Context) (*client, error) {
	if b.client != nil {
		b.client.roles = map[int64]command.Role{}
		return b.client, nil
	}
	c, err := b.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to GitHub: %w", err)
	}
	b.client = c
	return c, nil
}

// open is a client of the API over a transport.
func (cfg Config) open(rt http.RoundTripper) (*github.Client, error) {
	root, err := url.Parse(cfg.API + "/")
	if err != nil {
		return nil, fmt.Errorf("read the API's address: %w", err)
	}
	gh := github.NewClient(&http.Client{Transport: rt, Timeout: 30 * time.Second})
	gh.BaseURL = root
	return gh, nil
}

// asApp is the App itself, which signs what it asks with its key.
func (cfg Config) asApp(wire http.RoundTripper) (*ghinstallation.AppsTransport, *github.Client, error) {
	key, err := cfg.pem()
	if err != nil {
		return nil, nil, err
	}
	app, err := ghinstallation.NewAppsTransport(wire, cfg.App, key)
	if err != nil {
		return nil, nil, fmt.Errorf("read the App's private key: %w", err)
	}
	app.BaseURL = cfg.API
	gh, err := cfg.open(app)
	return app, gh, err
}

// pem is the key as PEM text: with line ends, with "\n" in their stead, or in base64.
func (cfg Config) pem() ([]byte, error) {
	text := strings.TrimSpace(strings.ReplaceAll(cfg.Key.Reveal(), `\n`, "\n"))
	if !strings.HasPrefix(text, "-----BEGIN") {
		if decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err == nil {
			text = string(decoded)
		}
	}
	if block, _ := pem.Decode([]byte(text)); block == nil {
		return nil, errors.New("the App's private key is not PEM text (-----BEGIN RSA PRIVATE KEY-----), nor that in base64")
	}
	return []byte(text), nil
}

// installation finds the App's installation on the repository.
func (cfg Config) installation(ctx context.Context, asApp *github.Client) (*github.Installation, error) {
	id := cfg.Installation
	if id == 0 {
		found, _, err := asApp.Apps.FindRepositoryInstallation(ctx, cfg.Owner, cfg.Name)
		if err != nil {
			return nil, fmt.Errorf("find the App's installation on %s/%s: %w", cfg.Owner, cfg.Name, err)
		}
		id = found.GetID()
	}
	found, _, err := asApp.Apps.GetInstallation(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("ask for the installation: %w", err)
	}
	if found.SuspendedAt != nil {
		return nil, errSuspended
	}
	return found, nil
}

func (b *Bot) dial(ctx context.Context) (*client, error) {
	wire := limit.NewTags(counter{b, b.cfg.Transport})
	c := &client{Repo: forge.Repo{Owner: b.cfg.Owner, Name: b.cfg.Name}, roles: map[int64]command.Role{}}
	if b.cfg.App == 0 {
		gh, err := b.cfg.open(wire)
		if err != nil {
			return nil, err
		}
		c.Client = gh.WithAuthToken(b.cfg.Token.Reveal())
		me, _, err := c.Users.Get(ctx, "")
		if err != nil {
			return nil, fmt.Errorf("ask who the token belongs to: %w", err)
		}
		c.slug, c.login, c.self = me.GetLogin(), me.GetLogin(), func(u *github.User) bool { return u.GetID() == me.GetID() }
		return c, nil
	}
	app, asApp, err := b.cfg.asApp(wire)
	if err != nil {
		return nil, err
	}
	me, _, err := asApp.Apps.Get(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("ask for the App: %w", err)
	}
	found, err := b.cfg.installation(ctx, asApp)
	if err != nil {
		return nil, err
	}
	c.learn(found)
	tr := ghinstallation.NewFromAppsTransport(app, found.GetID())
	tr.InstallationTokenOptions = &github.InstallationTokenOptions{Repositories: []string{c.Name}, Permissions: least(found.Permissions)}
	if c.Client, err = b.cfg.open(tr); err != nil {
		return nil, err
	}
	// A login that ends in [bot] can belong to that App only.
	c.asApp, c.slug = true, me.GetSlug()
	c.login = c.slug + "[bot]"
	c.self = func(u *github.User) bool { return u.GetType() == "Bot" && u.GetLogin() == c.login }
	return c, nil
}

// least is what the bot needs of what its owner has granted: a token that leaks may do
// no more. Workflow files are git's to push, with a token of their own.
func least(granted *github.InstallationPermissions) *github.InstallationPermissions {
	if granted == nil {
		return nil
	}
	may := &github.InstallationPermissions{
		Metadata: granted.Metadata, Checks: granted.Checks, Contents: granted.Contents, Issues: granted.Issues, PullRequests: granted.PullRequests,
		Statuses: granted.Statuses, Deployments: granted.Deployments,
	}
	if granted.Administration != nil {
		may.Administration = new("read") // then protection can be read as a whole
	}
	return may
}

// role is what u may do in the repository. GitHub is asked by login, and answers
// for a user id: another id means that the name changed hands. One answer serves
// one reconcile.
func (c *client) role(ctx context.Context, u *github.User) (command.Role, error) {
	if known, ok := c.roles[u.GetID()]; ok {
		return known, nil
	}
	level, resp, err := c.Repositories.GetPermissionLevel(ctx, c.Owner, c.Name, u.GetLogin())
	role := command.Stranger
	switch {
	case forge.Absent(resp):
	case err != nil:
		return role, fmt.Errorf("ask for the permission of %q: %w", u.GetLogin(), err)
	case u.GetID() != 0 && level.GetUser().GetID() == u.GetID():
		role = command.RoleOf(level.GetPermission(), level.GetRoleName())
	}
	c.roles[u.GetID()] = role
	return role, nil
}

// writes reports whether u may write.
func (c *client) writes(ctx context.Context, u *github.User) (bool, error) {
	role, err := c.role(ctx, u)
	return role >= command.Writer, err
}

// person reports whether a human being, not us, wrote something.
func (c *client) person(u *github.User) bool {
	return u.GetID() != 0 && u.GetType() != "Bot" && !strings.HasSuffix(u.GetLogin(), "[bot]") && !c.self(u)
}

// learn takes from an error what the next requests must respect. b.mu is held.
func (b *Bot) learn(err error) error {
	t := forge.TroubleOf(err)
	if t.Limited || t.Stale || t.Refused {
		b.client = nil // what it may do is asked for anew; it would go on with a refused token, or count the pause by its own clock
	}
	if !t.Limited {
		return nil
	}
	until, err := b.cfg.Limits.Cool(t.Wait)
	b.count(func(s *Stats) { s.Limited++; s.CoolUntil = until })
	return err
}

// cooling is how long no request may be made.
func (b *Bot) cooling() time.Duration { return b.cfg.Limits.Until().Sub(b.cfg.Now()) }

// busyError says that a write has to wait for its turn.
type busyError struct{ wait time.Duration }

func (e *busyError) Error() string { return fmt.Sprintf("a write has to wait for %v", e.wait) }

// turn counts one write, or says how long that has to wait.
func (b *Bot) turn() error {
	wait, err := b.cfg.Limits.Write()
	if err != nil {
		return err
	}
	if wait > 0 {
		return &busyError{wait}
	}
	b.count(func(s *Stats) { s.Writes++ })
	return nil
}

// learn notes what the installation may write, as its owner has granted it.
func (c *client) learn(found *github.Installation) {
	p := found.Permissions
	if p == nil {
		return
	}
	c.rights = map[string]bool{}
	for name, level := range map[string]*string{
		"checks": p.Checks, "contents": p.Contents, "issues": p.Issues, "pull_requests": p.PullRequests, "statuses": p.Statuses, "workflows": p.Workflows, "deployments": p.Deployments,
	} {
		c.rights[name] = level != nil && *level == "write"
	}
}

// may is that of the client at hand.
func (b *Bot) may(what string) bool { return b.client != nil && b.client.may(what) }

// may reports whether the installation may write such things; where that is not
// known, it may.
func (c *client) may(what string) bool { return c.rights == nil || c.rights[what] }

// errSuspended says that the owner has suspended the App.
var errSuspended = errors.New("the App's installation is suspended: its owner can end that in the settings of GitHub")
