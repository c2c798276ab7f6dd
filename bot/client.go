package bot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v66/github"
)

const defaultAPI = "https://api.github.com"

// maxPages bounds each listing at 100 a page.
const maxPages = 30

// client speaks to GitHub as one installation, or with one token.
type client struct {
	*github.Client
	owner, name string
	asApp       bool
	self        func(*github.User) bool // whether that is us
	token       func(context.Context) (Secret, error)
}

// counter counts the requests that pass through it.
type counter struct {
	b    *Bot
	next http.RoundTripper
}

// RoundTrip passes the request on.
func (c counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.b.count(func(s *Stats) { s.Calls++ })
	return c.next.RoundTrip(r)
}

// connect returns the client, made anew after a refusal. b.mu is held.
func (b *Bot) connect(ctx context.Context) (*client, error) {
	if b.client != nil {
		return b.client, nil
	}
	c, err := b.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to GitHub: %w", err)
	}
	b.client = c
	return c, nil
}

func (b *Bot) dial(ctx context.Context) (*client, error) {
	root, err := url.Parse(b.cfg.API + "/")
	if err != nil {
		return nil, fmt.Errorf("read the API's address: %w", err)
	}
	open := func(rt http.RoundTripper) *github.Client {
		gh := github.NewClient(&http.Client{Transport: rt, Timeout: 30 * time.Second})
		gh.BaseURL = root
		return gh
	}
	wire := counter{b, b.cfg.Transport}
	c := &client{owner: b.cfg.Owner, name: b.cfg.Name}
	if b.cfg.App == 0 {
		c.Client = open(wire).WithAuthToken(b.cfg.Token.Reveal())
		c.token = func(context.Context) (Secret, error) { return b.cfg.Token, nil }
		me, _, err := c.Users.Get(ctx, "")
		if err != nil {
			return nil, fmt.Errorf("ask who the token belongs to: %w", err)
		}
		c.self = func(u *github.User) bool { return u.GetID() == me.GetID() }
		return c, nil
	}
	key := strings.ReplaceAll(b.cfg.Key.Reveal(), `\n`, "\n")
	app, err := ghinstallation.NewAppsTransport(wire, b.cfg.App, []byte(key))
	if err != nil {
		return nil, fmt.Errorf("read the App's private key (PEM text is wanted): %w", err)
	}
	app.BaseURL = b.cfg.API
	asApp := open(app)
	me, _, err := asApp.Apps.Get(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("ask for the App: %w", err)
	}
	id := b.cfg.Installation
	if id == 0 {
		found, _, err := asApp.Apps.FindRepositoryInstallation(ctx, c.owner, c.name)
		if err != nil {
			return nil, fmt.Errorf("find the App's installation on %s/%s: %w", c.owner, c.name, err)
		}
		id = found.GetID()
	}
	tr := ghinstallation.NewFromAppsTransport(app, id)
	tr.InstallationTokenOptions = &github.InstallationTokenOptions{Repositories: []string{c.name}}
	c.asApp, c.Client = true, open(tr)
	c.token = func(ctx context.Context) (Secret, error) {
		t, err := tr.Token(ctx)
		return Secret(t), err
	}
	// A login that ends in [bot] can belong to that App only.
	login := me.GetSlug() + "[bot]"
	c.self = func(u *github.User) bool { return u.GetType() == "Bot" && u.GetLogin() == login }
	return c, nil
}

// listing reads all pages.
func listing[T any](page func(github.ListOptions) ([]T, *github.Response, error)) ([]T, *github.Response, error) {
	var all []T
	var first *github.Response
	opts := github.ListOptions{PerPage: 100}
	for range maxPages {
		part, resp, err := page(opts)
		if err != nil {
			return nil, resp, err
		}
		if all = append(all, part...); first == nil {
			first = resp
		}
		if resp.NextPage == 0 {
			return all, first, nil
		}
		opts.Page = resp.NextPage
	}
	return nil, first, fmt.Errorf("read a list: more than %d pages", maxPages)
}

// clock is when GitHub gave an answer, by its own clock, in whole seconds.
func clock(resp *github.Response) (time.Time, error) {
	t, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("read the date of an answer: %w", err)
	}
	return t, nil
}

// permitted reports whether u may write to the repository. GitHub is asked by
// login, and answers for a user id: another id means that the name changed hands.
func (c *client) permitted(ctx context.Context, u *github.User) (bool, error) {
	level, resp, err := c.Repositories.GetPermissionLevel(ctx, c.owner, c.name, u.GetLogin())
	if resp != nil && resp.StatusCode == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask for the permission of %q: %w", u.GetLogin(), err)
	}
	write := level.GetPermission() == "write" || level.GetPermission() == "admin"
	return write && u.GetID() != 0 && level.GetUser().GetID() == u.GetID(), nil
}

// person reports whether a human being, not us, wrote something.
func (c *client) person(u *github.User) bool {
	return u.GetID() != 0 && u.GetType() != "Bot" && !strings.HasSuffix(u.GetLogin(), "[bot]") && !c.self(u)
}

// trouble is what an error of the API means for the requests that follow.
type trouble struct {
	limited bool
	wait    time.Duration // 0: the answer named none
	stale   bool          // the credentials were refused
}

func troubleOf(err error) trouble {
	var resp *http.Response
	text := ""
	if e, ok := errors.AsType[*github.RateLimitError](err); ok {
		return trouble{limited: true, wait: waitOf(e.Response)}
	}
	if e, ok := errors.AsType[*github.AbuseRateLimitError](err); ok {
		return trouble{limited: true, wait: waitOf(e.Response)}
	}
	if e, ok := errors.AsType[*github.ErrorResponse](err); ok {
		resp, text = e.Response, e.Message
	} else if e, ok := errors.AsType[*ghinstallation.HTTPError](err); ok {
		resp = e.Response
	}
	if resp == nil {
		return trouble{}
	}
	refused := resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusTooManyRequests
	// The text is GitHub's only sign of some secondary limits.
	limited := resp.StatusCode == http.StatusTooManyRequests ||
		refused && (resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-RateLimit-Remaining") == "0" || strings.Contains(text, "secondary rate"))
	return trouble{limited: limited, wait: waitOf(resp), stale: resp.StatusCode == http.StatusUnauthorized}
}

// waitOf reads how long GitHub wants us to wait, free of our clock's skew.
func waitOf(resp *http.Response) time.Duration {
	if resp == nil {
		return 0
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s >= 0 {
		return time.Duration(s+1) * time.Second
	}
	reset, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64)
	now, err2 := http.ParseTime(resp.Header.Get("Date"))
	if err != nil || err2 != nil || resp.Header.Get("X-RateLimit-Remaining") != "0" {
		return 0
	}
	return max(time.Unix(reset, 0).Sub(now), 0) + time.Second
}

// learn takes from an error what the next requests must respect. b.mu is held.
func (b *Bot) learn(err error) (stop bool) {
	t := troubleOf(err)
	if t.limited || t.stale {
		b.client = nil // it would go on with a refused token, or count the pause by its own clock
	}
	if !t.limited {
		return t.stale
	}
	if t.wait == 0 {
		t.wait = time.Minute << min(b.mem.Strikes, 6)
		b.mem.Strikes++
	}
	b.mem.Cooldown = b.cfg.Now().Add(min(t.wait, 2*time.Hour))
	b.count(func(s *Stats) { s.Limited++; s.CoolUntil = b.mem.Cooldown })
	return true
}

// cooling is how long no request may be made.
func (b *Bot) cooling() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mem.Cooldown.Sub(b.cfg.Now())
}

// write makes one change on GitHub, a pause after the last one.
func (b *Bot) write(ctx context.Context, f func() error) error {
	b.count(func(s *Stats) { s.Writes++ })
	if err := f(); err != nil {
		return err
	}
	if !pause(ctx, b.cfg.Pause, nil) {
		return fmt.Errorf("pause between two writes: %w", context.Cause(ctx))
	}
	return nil
}
