package git

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"greenward/internal/proc"
)

// probeTime bounds a question to a remote that a person waits for.
const probeTime = 20 * time.Second

// Version is the git that runs here.
func Version(ctx context.Context, host proc.Host) (major, minor int, text string, err error) {
	r := &Repo{host: host}
	out, err := r.command(ctx, call{dir: "/", discover: true, args: []string{"version"}})
	if err != nil {
		return 0, 0, "", err
	}
	text = strings.TrimSpace(strings.TrimPrefix(string(out), "git version "))
	if _, err := fmt.Sscanf(text, "%d.%d", &major, &minor); err != nil {
		return 0, 0, text, fmt.Errorf("read git's version %q: %w", text, err)
	}
	return major, minor, text, nil
}

// Reach asks the remote for a ref, and gives what went wrong.
func (h *Hub) Reach(ctx context.Context, ref Ref) error {
	_, err := h.command(ctx, call{args: []string{"ls-remote", "--quiet", h.upstream, string(ref)}, timeout: probeTime, remote: true})
	return err
}

// MayPush reports whether the remote would take a push of ref; nothing is
// written there. A refusal is a *PushError. Rules that a server applies to what
// was pushed are not known before.
func (h *Hub) MayPush(ctx context.Context, head Hash, ref Ref) error {
	_, err := h.command(ctx, call{args: []string{"push", "--quiet", "--dry-run", "--no-verify", h.upstream, string(head) + ":" + string(ref)}, timeout: probeTime, remote: true})
	if said, ok := errors.AsType[*CommandError](err); ok {
		return &PushError{[]Ref{ref}, said.Stderr}
	}
	return err
}
