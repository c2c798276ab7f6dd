package bot

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v66/github"

	"greenward/bot/forge"
)

// Tokens are credentials for git over HTTP. Safe for concurrent use.
type Tokens struct {
	cfg Config

	mu   sync.Mutex
	mint *ghinstallation.Transport
}

// NewTokens makes credentials of what cfg says of the repository, the API and the
// App or token; nothing else of it is looked at. GitHub is asked at the first use.
func NewTokens(cfg Config) (*Tokens, error) {
	if err := cfg.access(); err != nil {
		return nil, fmt.Errorf("configure the bot: %w", err)
	}
	return &Tokens{cfg: cfg.withDefaults()}, nil
}

// Token is a credential that is good now, for the user x-access-token: ask at each
// use. An App's is for this repository alone, to read and write its contents. Empty
// where the App is not installed yet: git goes on as it would without.
func (t *Tokens) Token(ctx context.Context) (Secret, error) {
	if t.cfg.App == 0 {
		return t.cfg.Token, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mint == nil {
		app, asApp, err := t.cfg.asApp(t.cfg.Transport)
		if err != nil {
			return "", err
		}
		found, err := t.cfg.installation(ctx, asApp)
		if gone, ok := errors.AsType[*github.ErrorResponse](err); ok && forge.Absent(&github.Response{Response: gone.Response}) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		write := "write"
		may := &github.InstallationPermissions{Contents: &write}
		if found.GetPermissions().GetWorkflows() == write {
			may.Workflows = &write
		}
		t.mint = ghinstallation.NewFromAppsTransport(app, found.GetID())
		t.mint.InstallationTokenOptions = &github.InstallationTokenOptions{Repositories: []string{t.cfg.Name}, Permissions: may}
	}
	token, err := t.mint.Token(ctx)
	if err != nil {
		t.mint = nil // installed anew, perhaps
		return "", fmt.Errorf("get a token for git: %w", err)
	}
	return Secret(token), nil
}
