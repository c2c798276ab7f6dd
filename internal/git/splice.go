package git

import (
	"errors"
	"slices"

	"greenward/internal/git/tree"
)

// errSlow says that a merge is git's own business.
var errSlow = errors.New("not a splice")

// splice merges three trees without git where what theirs changed stands in ours
// as it stood in base, so that git would take theirs entry by entry. Anything
// else is errSlow: a path that both sides touched, a path that came or vanished
// in ours, a file that becomes a directory, a link, a submodule, a directory
// that ours no longer has (git may have found that it was renamed).
//
// Why this is what git does: every path that theirs changed or deleted is in
// ours as in base, hence no source of a rename there; every path that theirs
// added is free in ours, in a directory that ours still has, hence neither the
// target of a rename nor below a directory that ours renamed. Where theirs
// emptied a directory ours has nothing new in it that a rename could take along.
func (r *Repo) splice(base, ours, theirs Hash) (Hash, error) {
	if base == ours {
		return theirs, nil
	}
	if base == theirs || ours == theirs {
		return ours, nil
	}
	var trees [3][]byte
	for i, h := range []Hash{base, ours, theirs} {
		var err error
		if trees[i], err = r.rawTree(h); err != nil {
			return "", err
		}
	}
	changes, err := tree.Changes(trees[0], trees[2])
	if err != nil {
		return "", err
	}
	if len(changes) > fewChanges {
		return r.spliceMany(base, ours, theirs)
	}
	edits := make([]tree.Edit, 0, len(changes))
	for _, c := range changes {
		at, err := tree.Find(trees[1], cmpItem(c).Name)
		if err != nil {
			return "", err
		}
		if c.From.None() && !at.None() {
			return "", errSlow
		}
		b, o, t := entryOf(c.From), entryOf(at), entryOf(c.To)
		if !at.None() && treeOrder(b, o) != 0 {
			at, o = tree.Item{}, Entry{} // another kind of the name
		}
		e, err := r.spliceEntry(b, o, t)
		if err != nil {
			return "", err
		}
		edit := tree.Edit{Old: at}
		if !e.Hash.IsZero() {
			if edit.New, err = itemOf(e); err != nil {
				return "", err
			}
		}
		edits = append(edits, edit)
	}
	data, err := tree.Apply(trees[1], edits)
	if errors.Is(err, tree.ErrUnordered) {
		return "", errSlow // written by something that is not git
	}
	if err != nil {
		return "", err
	}
	if len(data) == 0 {
		return EmptyTree, nil
	}
	return r.writeRaw(data)
}

// fewChanges is how many changes of a folder are each looked up by themselves.
const fewChanges = 16

// spliceMany is splice where much changes in a folder.
func (r *Repo) spliceMany(base, ours, theirs Hash) (Hash, error) {
	var trees [3][]Entry
	for i, h := range []Hash{base, ours, theirs} {
		var err error
		if trees[i], err = r.treeEntries(h); err != nil {
			return "", err
		}
	}
	if !slices.IsSortedFunc(trees[1], treeOrder) {
		return "", errSlow // written by something that is not git
	}
	var merged []Entry
	err := eachChange(trees[0], trees[2], func(b, t Entry) error {
		if merged == nil {
			merged = slices.Clone(trees[1])
		}
		at, has := slices.BinarySearchFunc(merged, cmpEntry(b, t), treeOrder)
		if b.Hash.IsZero() && nameTaken(trees[1], t.Name) {
			return errSlow
		}
		var o Entry
		if has {
			o = merged[at]
		}
		e, err := r.spliceEntry(b, o, t)
		switch {
		case err != nil:
			return err
		case e.Hash.IsZero():
			merged = slices.Delete(merged, at, at+1)
		case has:
			merged[at] = e
		default:
			merged = slices.Insert(merged, at, e)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if len(merged) == 0 {
		return EmptyTree, nil
	}
	return r.writeParsed(merged)
}

// cmpEntry is the one of two entries of a name that is there.
func cmpEntry(b, t Entry) Entry {
	if b.Hash.IsZero() {
		return t
	}
	return b
}

// spliceEntry is what stands in the merge where base has b, ours o and theirs t;
// the zero Entry where nothing does.
func (r *Repo) spliceEntry(b, o, t Entry) (Entry, error) {
	for _, e := range []Entry{b, t} {
		if !e.Hash.IsZero() && e.Mode != ModeFile && e.Mode != ModeExecutable && e.Mode != ModeTree {
			return Entry{}, errSlow
		}
	}
	if o == b {
		return t, nil
	}
	if b.Mode != ModeTree || t.Mode != ModeTree || o.Mode != ModeTree {
		return Entry{}, errSlow
	}
	tree, err := r.splice(b.Hash, o.Hash, t.Hash)
	if err != nil || tree == EmptyTree {
		return Entry{}, err
	}
	return Entry{Mode: ModeTree, Name: o.Name, Hash: tree}, nil
}

// nameTaken reports whether a name stands in a tree, as a file or a directory.
func nameTaken(tree []Entry, name string) bool {
	for _, mode := range []string{ModeFile, ModeTree} {
		if _, has := slices.BinarySearchFunc(tree, Entry{Name: name, Mode: mode}, treeOrder); has {
			return true
		}
	}
	return false
}

// eachChange calls change for every name that differs between two trees, in
// their order. A name that is a file in one and a directory in the other is two
// changes; an entry that is not there is zero.
func eachChange(from, to []Entry, change func(from, to Entry) error) error {
	for len(from) > 0 || len(to) > 0 {
		order := 0
		switch {
		case len(from) == 0:
			order = 1
		case len(to) == 0:
			order = -1
		default:
			order = treeOrder(from[0], to[0])
		}
		var a, b Entry
		if order <= 0 {
			a, from = from[0], from[1:]
		}
		if order >= 0 {
			b, to = to[0], to[1:]
		}
		if a == b {
			continue
		}
		if err := change(a, b); err != nil {
			return err
		}
	}
	return nil
}

// changed lists the paths below dir that differ between two trees; the zero Hash
// is a tree without entries.
func (r *Repo) changed(dir string, from, to Hash, found *[]string) error {
	differing, err := r.Differing(from, to)
	if err != nil {
		return err
	}
	for _, d := range differing {
		a, b := d[0], d[1]
		name := dir + cmpEntry(a, b).Name
		var below [2]Hash
		var file bool
		for i, e := range []Entry{a, b} {
			if e.Mode == ModeTree {
				below[i] = e.Hash
			} else if !e.Hash.IsZero() {
				file = true
			}
		}
		if file {
			*found = append(*found, name)
		}
		if below[0] != below[1] {
			if err := r.changed(name+"/", below[0], below[1], found); err != nil {
				return err
			}
		}
	}
	return nil
}
