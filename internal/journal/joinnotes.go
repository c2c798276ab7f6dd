package journal

import (
	"errors"
	"fmt"
	"strings"

	"greenward/internal/git"
)

// maxNoteDepth bounds how deep a tree of notes is looked into: fan-out takes two digits
// of forty at a time.
const maxNoteDepth = 20

// JoinNotes writes the tree that holds the lines of two ledgers, as git's cat_sort_uniq
// merges them. It moves no ref.
func JoinNotes(repo *git.Repo, ours, theirs git.Hash) (git.Hash, error) {
	tree, err := repo.TreeOf(ours)
	if err != nil {
		return "", err
	}
	edits, err := joinTrees(repo, ours, theirs, "", 0)
	if err != nil {
		return "", fmt.Errorf("join two ledgers: %w", err)
	}
	if len(edits) == 0 {
		return tree, nil
	}
	return repo.EditTree(tree, edits)
}

// joinTrees lists what has to be written over ours below a folder.
func joinTrees(repo *git.Repo, ours, theirs git.Hash, dir string, depth int) ([]git.Edit, error) {
	if depth > maxNoteDepth {
		return nil, errors.New("the notes of the other one lie too deep")
	}
	there, err := repo.Entries(theirs, dir)
	if err != nil {
		return nil, err
	}
	var edits []git.Edit
	for _, e := range there {
		path := strings.TrimPrefix(dir+"/"+e.Name, "/")
		here, err := repo.Lookup(ours, path)
		if err != nil && !errors.Is(err, git.ErrNotFound) {
			return nil, err
		}
		absent := err != nil
		switch {
		case !absent && here.Hash == e.Hash:
		case e.Mode == git.ModeTree && (absent || here.Mode == git.ModeTree):
			below, err := joinTrees(repo, ours, theirs, path, depth+1)
			if err != nil {
				return nil, err
			}
			edits = append(edits, below...)
		case e.Mode == git.ModeTree || !absent && here.Mode == git.ModeTree || e.Mode == git.ModeSubmodule:
			// A note here and a folder there are notes on different things, or none.
		case absent:
			edits = append(edits, git.Edit{Path: path, Hash: e.Hash})
		default:
			mine, err := repo.Blob(here.Hash)
			if err != nil {
				return nil, err
			}
			other, err := repo.Blob(e.Hash)
			if err != nil {
				return nil, err
			}
			blob, err := repo.WriteBlob(git.MergeLines(mine, other))
			if err != nil {
				return nil, err
			}
			edits = append(edits, git.Edit{Path: path, Hash: blob})
		}
	}
	return edits, nil
}
