package merge

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"greenward/internal/git"
)

// RevertInPart is Revert where later work stands on what culprit changed: of the
// paths that conflict, the hunks that nothing rewrote are taken back and the
// others stay as onto has them. kept are those paths; noop says that nothing at
// all could be taken back.
func (s *Session) RevertInPart(ctx context.Context, onto, culprit git.Hash) (tree git.Hash, kept []string, noop bool, err error) {
	c, err := s.repo.Commit(culprit)
	if err != nil {
		return "", nil, false, fmt.Errorf("revert %s in part: %w", culprit.Short(), err)
	}
	before := git.EmptyTree
	if !c.Parent().IsZero() {
		before = c.Parent()
	}
	var bare [3]git.Hash
	for i, h := range []git.Hash{c.Tree, onto, before} {
		if bare[i], err = s.repo.WithoutTasks(h); err != nil {
			return "", nil, false, fmt.Errorf("strip tasks/ from %s: %w", h.Short(), err)
		}
	}
	base, ours, theirs := bare[0], bare[1], bare[2]
	m, err := s.mergeTrees(ctx, base, ours, theirs)
	if err != nil {
		return "", nil, false, err
	}
	merged := m.Tree
	if len(m.Conflicts) > 0 {
		var edits []git.Edit
		for _, path := range m.Conflicts {
			edit, err := s.settle(m.Tree, ours, path)
			if err != nil {
				return "", nil, false, fmt.Errorf("revert %s in part: %w", culprit.Short(), err)
			}
			edits = append(edits, edit)
		}
		if merged, err = s.repo.EditTree(m.Tree, edits); err != nil {
			return "", nil, false, fmt.Errorf("revert %s in part: %w", culprit.Short(), err)
		}
	}
	if tree, err = s.repo.WithTasksOf(merged, onto); err != nil {
		return "", nil, false, fmt.Errorf("put tasks/ of %s back: %w", onto.Short(), err)
	}
	return tree, m.Conflicts, merged == ours, nil
}

// settle is what becomes of one path that conflicts: its text with our side of
// each conflict, or as a whole what ours has.
func (s *Session) settle(merged, ours git.Hash, path string) (git.Edit, error) {
	edit := git.Edit{Path: path}
	mine, err := s.repo.Lookup(ours, path)
	switch {
	case errors.Is(err, git.ErrNotFound):
		return edit, nil // it is gone in ours, and stays so
	case err != nil:
		return edit, err
	}
	edit.Hash, edit.Mode = mine.Hash, mine.Mode
	if mine.Mode != git.ModeFile && mine.Mode != git.ModeExecutable {
		return edit, nil
	}
	text, err := s.repo.File(merged, path)
	if errors.Is(err, git.ErrNotFound) {
		return edit, nil
	}
	if err != nil {
		return edit, err
	}
	own, err := s.repo.Blob(mine.Hash)
	if err != nil {
		return edit, err
	}
	kept, ok := ourSide(text)
	if !ok || hasMarker(own) { // markers of its own: nothing in it can be told apart
		return edit, nil
	}
	edit.Hash, err = s.repo.WriteBlob(kept)
	return edit, err
}

// The lines that git puts around a conflict.
func opens(line []byte) bool { return bytes.HasPrefix(line, []byte("<<<<<<< ")) }

func divides(line []byte) bool { return bytes.Equal(bytes.TrimRight(line, "\r\n"), []byte("=======")) }
func closes(line []byte) bool  { return bytes.HasPrefix(line, []byte(">>>>>>> ")) }

func hasMarker(text []byte) bool {
	for line := range bytes.Lines(text) {
		if opens(line) || divides(line) || closes(line) {
			return true
		}
	}
	return false
}

// ourSide resolves every conflict in a text to its first side. It gives up where
// the markers do not pair, and where there is none.
func ourSide(text []byte) ([]byte, bool) {
	var out bytes.Buffer
	const plain, ours, theirs = 0, 1, 2
	at, found := plain, false
	for line := range bytes.Lines(text) {
		switch {
		case opens(line):
			if at != plain {
				return nil, false
			}
			at, found = ours, true
		case divides(line) && at == ours:
			at = theirs
		case closes(line):
			if at != theirs {
				return nil, false
			}
			at = plain
		case divides(line):
			return nil, false
		case at != theirs:
			out.Write(line)
		}
	}
	return out.Bytes(), found && at == plain
}
