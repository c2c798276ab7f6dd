package accept

import (
	"context"
	"errors"
	"fmt"

	"greenward/internal/git"
)

// Repo is what Between reads.
type Repo interface {
	ChangedPaths(ctx context.Context, from, to git.Hash) ([]string, error)
	Lookup(treeish git.Hash, name string) (git.Entry, error)
	Blob(h git.Hash) ([]byte, error)
}

// maxRead bounds the files that are read of a patch; one that touches more is refused
// for that.
const maxRead = 200

// Between reads the files that differ between two trees or commits.
func Between(ctx context.Context, repo Repo, from, to git.Hash) ([]File, error) {
	paths, err := repo.ChangedPaths(ctx, from, to)
	if err != nil {
		return nil, err
	}
	var all []File
	for i, path := range paths {
		f := File{Path: path}
		if i < maxRead {
			if f, err = read(repo, path, from, to); err != nil {
				return nil, fmt.Errorf("read %q: %w", path, err)
			}
		}
		all = append(all, f)
	}
	return all, nil
}

func read(repo Repo, path string, from, to git.Hash) (File, error) {
	f := File{Path: path}
	before, was, err := version(repo, from, path)
	if err != nil {
		return f, err
	}
	after, is, err := version(repo, to, path)
	if err != nil {
		return f, err
	}
	f.Before, f.After = before, after
	f.Odd = is.Hash != "" && (is.Mode != git.ModeFile && is.Mode != git.ModeExecutable || was.Hash != "" && was.Mode != is.Mode)
	return f, nil
}

// version is a file in a tree; nil where there is none. What is no file has no text.
func version(repo Repo, tree git.Hash, path string) ([]byte, git.Entry, error) {
	entry, err := repo.Lookup(tree, path)
	if errors.Is(err, git.ErrNotFound) {
		return nil, git.Entry{}, nil
	}
	if err != nil || entry.Mode != git.ModeFile && entry.Mode != git.ModeExecutable {
		return []byte{}, entry, err
	}
	text, err := repo.Blob(entry.Hash)
	if text == nil {
		text = []byte{}
	}
	return text, entry, err
}
