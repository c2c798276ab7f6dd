package git

import (
	"encoding/hex"
	"fmt"
	"strings"

	"greenward/internal/git/tree"

	"github.com/go-git/go-git/v5/plumbing"
)

// rawTree is a tree as it is stored; the zero Hash is a tree without entries. It is
// shared: it must not be changed.
func (r *Repo) rawTree(h Hash) ([]byte, error) {
	if h.IsZero() || h == EmptyTree {
		return nil, nil
	}
	_, raw, err := r.object(plumbing.TreeObject, h)
	return raw, err
}

// writeRaw stores a tree whose entries are well-formed and in order, and remembers it.
func (r *Repo) writeRaw(data []byte) (Hash, error) {
	h, err := r.write(plumbing.TreeObject, data)
	if err != nil {
		return "", err
	}
	r.home().kept.keep(h, plumbing.TreeObject, data)
	return h, nil
}

// home is the repository that remembers what was read and written: what a Stage
// stands on, or itself.
func (r *Repo) home() *Repo {
	if r.of != nil {
		return r.of
	}
	return r
}

// Differing lists the entries of one folder that differ between two trees, in their
// order; an entry that one of them lacks is zero there. A name that is a file in
// one and a folder in the other stands twice. The zero Hash is a tree without
// entries.
func (r *Repo) Differing(from, to Hash) ([][2]Entry, error) {
	var trees [2][]byte
	for i, h := range []Hash{from, to} {
		var err error
		if trees[i], err = r.rawTree(h); err != nil {
			return nil, err
		}
	}
	changes, err := tree.Changes(trees[0], trees[1])
	if err != nil {
		return nil, fmt.Errorf("compare tree %s with %s: %w", from.Short(), to.Short(), err)
	}
	out := make([][2]Entry, len(changes))
	for i, c := range changes {
		out[i] = [2]Entry{entryOf(c.From), entryOf(c.To)}
	}
	return out, nil
}

// EachName gives the name of every entry of a tree, until each says false. A name
// must not be kept.
func (r *Repo) EachName(of Hash, each func(name []byte) bool) error {
	raw, err := r.rawTree(of)
	if err != nil {
		return err
	}
	if err := tree.Each(raw, func(i tree.Item) bool { return each(i.Name) }); err != nil {
		return fmt.Errorf("list tree %s: %w", of.Short(), err)
	}
	return nil
}

func entryOf(i tree.Item) Entry {
	if i.None() {
		return Entry{}
	}
	return Entry{Mode: modeOf(string(i.Mode)), Name: string(i.Name), Hash: Hash(hex.EncodeToString(i.ID))}
}

func itemOf(e Entry) (tree.Item, error) {
	id, err := hex.DecodeString(string(e.Hash))
	if err == nil && len(id) != 20 {
		err = hex.ErrLength
	}
	if err == nil {
		err = checkName(e.Name)
	}
	if err != nil {
		return tree.Item{}, fmt.Errorf("tree entry %q: %w", e.Name, err)
	}
	return tree.Item{Mode: []byte(strings.TrimPrefix(e.Mode, "0")), Name: []byte(e.Name), ID: id}, nil
}

// cmpItem is the one of two entries of a name that is there.
func cmpItem(c tree.Change) tree.Item {
	if c.From.None() {
		return c.To
	}
	return c.From
}
