package git

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
)

// Credential gives the user and the password to enter a remote with, anew for each
// command: what GitHub gives an App is good for an hour.
type Credential func(ctx context.Context) (user, password string, err error)

// door is how a remote over HTTP is entered.
type door struct {
	root string // scheme and host: to nobody else the secret is sent, not after a redirect either
	key  Credential
}

// newDoor is nil where the remote is not reached over HTTP: a secret is of no use there.
func newDoor(upstream string, key Credential) *door {
	u, err := url.Parse(upstream)
	if key == nil || err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil
	}
	return &door{root: u.Scheme + "://" + u.Host + "/", key: key}
}

// env hands the secret to one git command by its environment, where no argument
// list and no file shows it.
func (d *door) env(ctx context.Context) ([]string, error) {
	user, password, err := d.key(ctx)
	if err != nil {
		return nil, fmt.Errorf("get a credential for %s: %w", d.root, err)
	}
	if password == "" {
		return nil, nil
	}
	basic := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return []string{
		"GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=http." + d.root + ".extraHeader", "GIT_CONFIG_VALUE_0=Authorization: Basic " + basic,
		"GIT_CONFIG_KEY_1=http.followRedirects", "GIT_CONFIG_VALUE_1=false",
	}, nil
}

// SetRemote gives a remote of the repository an address, and makes it when there is none.
func (r *Repo) SetRemote(ctx context.Context, name, url string) error {
	if name == "" || strings.HasPrefix(name, "-") || strings.HasPrefix(url, "-") || strings.ContainsAny(name+url, "\n\x00") {
		return fmt.Errorf("remote %q: not a remote's name and address", name)
	}
	known, err := r.remoteURL(ctx, name, r.dir)
	if err != nil || known == url {
		return err
	}
	verb := "set-url"
	if known == "" {
		verb = "add"
	}
	if _, err := r.git(ctx, "remote", verb, name, url); err != nil {
		return fmt.Errorf("name the remote %q: %w", name, err)
	}
	return nil
}
