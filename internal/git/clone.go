package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// CloneBare makes a bare repository at dir that holds r's objects, sharing their
// files where the file system can, and no ref but main.
func (r *Repo) CloneBare(ctx context.Context, dir string, main Hash) (*Repo, error) {
	if _, err := r.command(ctx, call{dir: filepath.Dir(dir), discover: true, args: []string{"clone", "--quiet", "--bare", "--no-tags", r.dir, dir}}); err != nil {
		return nil, fmt.Errorf("clone %q: %w", r.dir, err)
	}
	for _, old := range []string{"packed-refs", "refs/heads", "refs/tags"} {
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			return nil, fmt.Errorf("clone %q: %w", r.dir, err)
		}
	}
	err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "refs", "heads"), 0o755),
		os.WriteFile(filepath.Join(dir, "HEAD"), []byte("ref: refs/heads/main\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "refs", "heads", "main"), []byte(string(main)+"\n"), 0o644),
	)
	if err != nil {
		return nil, fmt.Errorf("clone %q: %w", r.dir, err)
	}
	return Open(ctx, dir, r.host)
}

// Repack puts everything that refs reach into one pack, as git packs a repository
// that is new to it, and drops the rest. It is for copies that nobody borrows from.
func (r *Repo) Repack(ctx context.Context) error {
	for _, args := range [][]string{{"repack", "-a", "-d", "-q"}, {"prune", "--expire=now"}} {
		if _, err := r.git(ctx, args...); err != nil {
			return fmt.Errorf("repack %q: %w", r.dir, err)
		}
	}
	return nil
}

// RepackWhole is Repack of all that the repository has, whether or not a ref
// reaches it.
func (r *Repo) RepackWhole(ctx context.Context) error {
	if _, err := r.git(ctx, "repack", "-a", "-d", "-q", "--keep-unreachable"); err != nil {
		return fmt.Errorf("repack %q: %w", r.dir, err)
	}
	return nil
}
