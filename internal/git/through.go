package git

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"greenward/internal/proc"
)

// throughFile, in a repository's directory, holds the URL of the hub that the
// repository is a working mirror of.
const throughFile = "greenward-through"

// HubToken names the variable that holds the credential for a hub over http.
const HubToken = "GREENWARD_HUB_TOKEN"

// ErrAway says that the hub of a mirror could not be reached: whatever was asked of it
// may be asked again.
var ErrAway = errors.New("the hub is not reached")

// mirrored is what a mirror takes of its hub: all that workers read.
func mirrored() []string {
	return []string{"+refs/heads/*:refs/heads/*", "+refs/greenward/*:refs/greenward/*", "+refs/notes/*:refs/notes/*"}
}

// OpenMirror makes dir a working mirror of the hub at url, reached over http(s),
// ssh or a path, and takes what the hub has. Whatever moves a ref of the mirror
// moves it in the hub first, by the same compare-and-swap: a claim that was won
// here was won there. Sync brings the mirror up to date.
func OpenMirror(ctx context.Context, url, dir string, host proc.Host) (*Repo, error) {
	if strings.HasPrefix(url, "-") || strings.ContainsAny(url, "\n\x00") {
		return nil, fmt.Errorf("hub %q: not the address of a repository", url)
	}
	m, err := InitBare(ctx, dir, host)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(m.dir, throughFile), []byte(url), 0o600); err != nil {
		return nil, fmt.Errorf("mirror %s: %w", redacted(url), err)
	}
	return m, m.Sync(ctx)
}

// Sync takes what the hub of a mirror has now. A repository that is no mirror is
// left alone.
func (r *Repo) Sync(ctx context.Context) error {
	url := r.through()
	if url == "" {
		return nil
	}
	b, specs := r.quick(url), mirrored()
	var odd error
	if b != nil {
		var differs bool
		if differs, odd = r.syncQuick(ctx, b); odd == nil && !differs {
			return nil
		}
		if odd == nil {
			specs = append(specs, "^"+ClaimPrefix+"*") // these are here by now
		}
	}
	args := append([]string{"-c", "core.fsync=none", "fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", url}, specs...)
	_, err := r.command(ctx, call{args: args, remote: true, env: credential(r, url)})
	if err != nil {
		return fmt.Errorf("take what the hub %s has: %w: %w", redacted(url), ErrAway, err)
	}
	if odd != nil {
		b.foreign(odd)
	}
	return nil
}

// through is the hub that this repository mirrors; empty: none.
func (r *Repo) through() string {
	url, err := os.ReadFile(filepath.Join(r.dir, throughFile))
	if err != nil {
		return "" // by far most repositories
	}
	return strings.TrimSpace(string(url))
}

// credential hands the token for an http hub to git, in its environment: an
// argument could be read by everyone on the machine.
func credential(r *Repo, url string) []string {
	token := r.host.Get(HubToken)
	if token == "" || !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return nil
	}
	user, secret, named := strings.Cut(token, ":")
	if !named {
		user, secret = "worker", token
	}
	basic := base64.StdEncoding.EncodeToString([]byte(user + ":" + secret))
	return []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http." + url + ".extraHeader", "GIT_CONFIG_VALUE_0=Authorization: Basic " + basic}
}

// redacted is a URL without what may be a password.
func redacted(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return url
	}
	host, path, _ := strings.Cut(rest, "/")
	return scheme + "://" + host[strings.LastIndexByte(host, '@')+1:] + "/" + path
}

// pushThrough moves refs of the hub that from's owner mirrors, all or none. from
// is the repository that holds the objects. An answer that was lost on the way is
// looked up: what stands there as asked was done.
func (r *Repo) pushThrough(ctx context.Context, url string, updates []RefUpdate) error {
	args := []string{"push", "--quiet", "--atomic", "--no-verify", "--porcelain"}
	var specs []string
	for _, u := range updates {
		if _, err := ParseRef(string(u.Ref)); err != nil {
			return fmt.Errorf("push: %w", err)
		}
		if u.Assert {
			return fmt.Errorf("move %s in the hub %s: %w: only refs that move can be held", u.Ref, redacted(url), ErrUnsupported)
		}
		args = append(args, fmt.Sprintf("--force-with-lease=%s:%s", u.Ref, u.Old))
		specs = append(specs, fmt.Sprintf("%s:%s", u.New, u.Ref))
	}
	out, err := r.command(ctx, call{args: append(append(args, url), specs...), remote: true, survive: true, env: credential(r, url)})
	if err == nil {
		return nil
	}
	said, refused := errors.AsType[*CommandError](err)
	if !refused {
		return err
	}
	there, listErr := r.lsRemote(ctx, url, updates)
	if listErr != nil {
		return fmt.Errorf("move %s in the hub %s: %w: %w", updates[0].Ref, redacted(url), ErrAway, listErr)
	}
	done := true
	for _, u := range updates {
		done = done && there[u.Ref] == u.New
	}
	if done {
		return nil
	}
	for _, u := range updates {
		if there[u.Ref] != u.Old {
			return &RaceError{Ref: u.Ref, Want: u.Old, Is: there[u.Ref]}
		}
	}
	var why []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "!") { // as --porcelain marks a ref that was refused
			continue
		}
		// It stood elsewhere when git looked, or moved under it, and is back by now: a
		// claim comes and goes.
		for _, lost := range []string{"[rejected] (stale info)", "[remote rejected] (atomic transaction failed)", "[remote rejected] (failed to update ref)"} {
			if spec, raced := strings.CutSuffix(strings.TrimSpace(line), lost); raced {
				_, ref, _ := strings.Cut(strings.TrimSpace(spec[1:]), ":")
				return &RaceError{Ref: Ref(ref)}
			}
		}
		why = append(why, OneLine(line[1:]))
	}
	return fmt.Errorf("move %s in the hub %s: %s: %w", updates[0].Ref, redacted(url), strings.Join(why, "; "), said)
}

func (r *Repo) lsRemote(ctx context.Context, url string, updates []RefUpdate) (map[Ref]Hash, error) {
	args := []string{"ls-remote", "--quiet", url}
	for _, u := range updates {
		args = append(args, string(u.Ref))
	}
	out, err := r.command(ctx, call{args: args, remote: true, env: credential(r, url)})
	if err != nil {
		return nil, err
	}
	there := map[Ref]Hash{}
	for line := range strings.Lines(string(out)) {
		if hash, ref, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			there[Ref(ref)] = Hash(hash)
		}
	}
	return there, nil
}

// follow sets refs of a mirror to what the hub holds by now.
func (r *Repo) follow(ctx context.Context, updates []RefUpdate) error {
	var moves []RefUpdate
	for _, u := range updates {
		old, err := r.Tip(u.Ref)
		if err != nil {
			return err
		}
		if old != u.New {
			moves = append(moves, RefUpdate{Ref: u.Ref, New: u.New, Old: old})
		}
	}
	err := r.transact(ctx, "follow the hub", moves)
	if _, raced := errors.AsType[*RaceError](err); raced {
		return nil // a Sync was at it: the next one brings the newest
	}
	return err
}

// pushBeyond pushes from a working copy to the hub that its repository mirrors,
// then takes it into the mirror.
func (w *Worktree) pushBeyond(ctx context.Context, mirror *Repo, url string, updates []RefUpdate) error {
	if err := w.repo.pushThrough(ctx, url, updates); err != nil {
		return err
	}
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", url}
	for _, u := range updates {
		if !u.New.IsZero() {
			args = append(args, "+"+string(u.Ref)+":"+string(u.Ref))
		}
	}
	_, err := mirror.command(ctx, call{args: args, remote: true, env: credential(mirror, url)})
	if _, said := errors.AsType[*CommandError](err); said {
		return nil // it is in the hub; a branch may be decided and gone already
	}
	return err
}
