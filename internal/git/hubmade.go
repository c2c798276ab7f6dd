package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"greenward/internal/proc"
)

// hubName is where the hub of a clone lies in its git directory.
const hubName = "greenward/hub.git"

// Another process of the same clone may be writing its configuration.
const (
	nameTries = 50
	nameWait  = 100 * time.Millisecond
)

// openMade opens the hub of a clone, and makes it where there is none: aside, and renamed,
// so that of processes that begin at once one wins, and none sees half of it.
func openMade(ctx context.Context, dir string, host proc.Host) (*Repo, error) {
	if made(dir) {
		return Open(ctx, dir, host)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("make a place for the hub: %w", err)
	}
	aside, err := os.MkdirTemp(filepath.Dir(dir), "making-")
	if err != nil {
		return nil, fmt.Errorf("make a place for the hub: %w", err)
	}
	built := filepath.Join(aside, filepath.Base(dir))
	if _, err = InitBare(ctx, built, host); err == nil {
		err = os.Rename(built, dir)
	}
	if made(dir) {
		err = nil // by us, or by whoever was faster
	}
	if gone := os.RemoveAll(aside); err == nil && gone == nil {
		return Open(ctx, dir, host)
	}
	if errors.Is(err, os.ErrExist) {
		return InitBare(ctx, dir, host) // half of one lies there, from a version that made it in place
	}
	return nil, fmt.Errorf("make the hub %q: %w", dir, err)
}

func made(dir string) bool {
	for _, name := range []string{"HEAD", "config", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// nameInClone makes the hub reachable as the remote greenward. A remote of that name
// that somebody else made is never written over.
func (h *Hub) nameInClone(ctx context.Context) error {
	for try := 1; ; try++ {
		url, err := h.clone.remoteURL(ctx, "greenward", "/")
		if err != nil || url == h.dir {
			return err
		}
		verb := "set-url" // the clone was moved or copied, and its hub with it
		if url == "" {
			verb = "add"
		} else if !filepath.IsAbs(url) || !strings.HasSuffix(url, "/"+hubName) {
			return fmt.Errorf("%q has a remote called greenward already, %s, and that name is for the hub: give yours another with `git remote rename greenward NAME`: %w",
				h.clone.dir, url, ErrUnsupported)
		}
		_, err = h.clone.git(ctx, "remote", verb, "greenward", h.dir)
		if err == nil {
			return nil
		}
		if try == nameTries {
			return fmt.Errorf("name the hub in the clone: %w", err)
		}
		select { // another process names it, or the person's git holds the configuration
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(nameWait):
		}
	}
}

// UpstreamBranches asks upstream which branches it has, those of the queue left out, and
// which of them its HEAD names; empty: it does not say.
func (h *Hub) UpstreamBranches(ctx context.Context) (head Ref, branches []Ref, err error) {
	out, err := h.command(ctx, call{args: []string{"ls-remote", "--quiet", "--symref", h.upstream, "HEAD", "refs/heads/*"}, remote: true})
	if err != nil {
		return "", nil, fmt.Errorf("ask %q for its branches: %w", h.upstream, err)
	}
	for line := range strings.Lines(string(out)) {
		value, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if target, symbolic := strings.CutPrefix(value, "ref: "); symbolic && name == "HEAD" {
			head = Ref(target)
		}
		if ref, err := ParseRef(name); err == nil && name != "HEAD" && !strings.HasPrefix(name, QueuePrefix) {
			branches = append(branches, ref)
		}
	}
	if !slices.Contains(branches, head) {
		head = ""
	}
	return head, branches, nil
}

// SetHead has HEAD of the repository name a branch.
func (r *Repo) SetHead(ctx context.Context, branch Ref) error {
	_, err := r.git(ctx, "symbolic-ref", "HEAD", string(branch))
	return err
}
