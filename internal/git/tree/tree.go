// Package tree owns what can be said of trees, and done to them, as they are
// stored: what differs between two, where a name stands, what comes of a few
// changes. A folder of thousands of entries in which one changes is compared and
// copied, and not taken apart.
package tree

import (
	"bytes"
	"errors"
	"slices"
)

// Item is one entry of a stored tree. Its parts lie in the tree's own memory. The
// zero Item is none.
type Item struct {
	Mode, Name []byte
	ID         []byte // 20 bytes
}

// None reports whether the item is that of no entry.
func (i Item) None() bool { return len(i.ID) == 0 }

// ErrTorn says that a tree is not one: an entry is cut short.
var ErrTorn = errors.New("a tree entry is cut short")

const idSize = 20

// next is the entry at the beginning of data, and what comes after it.
func next(data []byte) (Item, []byte, error) {
	end := bytes.IndexByte(data, 0)
	space := bytes.IndexByte(data[:max(end, 0)], ' ')
	if space < 1 || space+1 == end || len(data)-end <= idSize {
		return Item{}, nil, ErrTorn
	}
	at := end + 1
	return Item{Mode: data[:space], Name: data[space+1 : end], ID: data[at : at+idSize]}, data[at+idSize:], nil
}

// Each gives every entry, in stored order, until each says false.
func Each(data []byte, each func(Item) bool) error {
	for len(data) > 0 {
		item, rest, err := next(data)
		if err != nil {
			return err
		}
		if !each(item) {
			return nil
		}
		data = rest
	}
	return nil
}

// isDir reports whether an entry is a folder.
func (i Item) isDir() bool { return string(i.Mode) == "40000" }

// compare is git's order of entries: a folder sorts as if its name ended with a slash.
func compare(a, b Item) int {
	n := min(len(a.Name), len(b.Name))
	if c := bytes.Compare(a.Name[:n], b.Name[:n]); c != 0 {
		return c
	}
	return a.end(n) - b.end(n)
}

// end is the byte that a name has at n in the order of trees.
func (i Item) end(n int) int {
	switch {
	case n < len(i.Name):
		return int(i.Name[n])
	case i.isDir():
		return '/'
	}
	return -1
}

// Change is a name that differs between two trees; where it is not in one of them,
// that side is none. A name that is a file in one and a folder in the other is two
// changes.
type Change struct{ From, To Item }

// Changes lists what differs between two trees, in their order.
func Changes(from, to []byte) ([]Change, error) {
	from, to, err := differing(from, to)
	if err != nil {
		return nil, err
	}
	var out []Change
	for len(from) > 0 || len(to) > 0 {
		var c Change
		var afterFrom, afterTo []byte
		order := 0
		if len(from) > 0 {
			if c.From, afterFrom, err = next(from); err != nil {
				return nil, err
			}
		} else {
			order = 1
		}
		if len(to) > 0 {
			if c.To, afterTo, err = next(to); err != nil {
				return nil, err
			}
		} else {
			order = -1
		}
		if order == 0 {
			order = compare(c.From, c.To)
		}
		if order <= 0 {
			from = afterFrom
		} else {
			c.From = Item{}
		}
		if order >= 0 {
			to = afterTo
		} else {
			c.To = Item{}
		}
		if order != 0 || !bytes.Equal(c.From.ID, c.To.ID) || !bytes.Equal(c.From.Mode, c.To.Mode) {
			out = append(out, c)
		}
	}
	return out, nil
}

// differing cuts the entries that two trees begin with alike, and those that they
// end with alike.
func differing(from, to []byte) (a, b []byte, err error) {
	same := common(from, to)
	skip := 0
	for at := from; ; {
		_, rest, err := next(at)
		if len(at) == 0 || err != nil || len(from)-len(rest) > same {
			break // a torn entry is found by whoever reads on
		}
		skip, at = len(from)-len(rest), rest
	}
	from, to = from[skip:], to[skip:]
	tail := commonEnd(from, to)
	if tail <= idSize {
		return from, to, nil
	}
	// Where the entries of both meet within what is alike, the rest is alike. An entry
	// may seem to begin in the middle of another one's id, so both are walked.
	ends := func(data []byte) (int, error) {
		at := data
		for len(at) > tail {
			var err error
			if _, at, err = next(at); err != nil {
				return 0, err
			}
		}
		return len(at), nil
	}
	left, err := ends(from)
	if err != nil {
		return nil, nil, err
	}
	right, err := ends(to)
	if err != nil {
		return nil, nil, err
	}
	if left != right {
		return from, to, nil
	}
	return from[:len(from)-left], to[:len(to)-right], nil
}

const block = 64

// common is how many bytes two begin with alike.
func common(a, b []byte) int {
	n, most := 0, min(len(a), len(b))
	for n+block <= most && bytes.Equal(a[n:n+block], b[n:n+block]) {
		n += block
	}
	for n < most && a[n] == b[n] {
		n++
	}
	return n
}

// commonEnd is how many bytes two end with alike.
func commonEnd(a, b []byte) int {
	n, most := 0, min(len(a), len(b))
	for n+block <= most && bytes.Equal(a[len(a)-n-block:len(a)-n], b[len(b)-n-block:len(b)-n]) {
		n += block
	}
	for n < most && a[len(a)-n-1] == b[len(b)-n-1] {
		n++
	}
	return n
}

// Edit is an entry to be put in the place of one that a tree has, to be added where
// Old is none, or to be taken out where New is none.
type Edit struct{ Old, New Item }

// ErrUnordered says that a tree is not in git's order, or has a name twice.
var ErrUnordered = errors.New("tree entries are not in order")

// Apply makes the edits, which must be of different names; an Old must lie in data.
func Apply(data []byte, edits []Edit) ([]byte, error) {
	edits = slices.Clone(edits)
	slices.SortFunc(edits, func(a, b Edit) int { return compare(a.key(), b.key()) })
	size := len(data)
	for _, e := range edits {
		size += len(e.New.Mode) + len(e.New.Name) + 2 + len(e.New.ID)
	}
	out := make([]byte, 0, size)
	var before Item
	for at := data; len(at) > 0; {
		item, rest, err := next(at)
		if err != nil {
			return nil, err
		}
		if !before.None() && compare(before, item) >= 0 {
			return nil, ErrUnordered
		}
		before = item
		taken := false
		for len(edits) > 0 {
			order := compare(edits[0].key(), item)
			if order > 0 {
				break
			}
			if order == 0 {
				taken = true
			}
			out = edits[0].New.append(out)
			edits = edits[1:]
		}
		if !taken {
			out = append(out, at[:len(at)-len(rest)]...)
		}
		at = rest
	}
	for _, e := range edits {
		out = e.New.append(out)
	}
	return out, nil
}

// key is the entry whose place an edit is about.
func (e Edit) key() Item {
	if e.Old.None() {
		return e.New
	}
	return e.Old
}

func (i Item) append(out []byte) []byte {
	if i.None() {
		return out
	}
	out = append(append(out, i.Mode...), ' ')
	out = append(append(out, i.Name...), 0)
	return append(out, i.ID...)
}

// Find is the entry of a name, as a file or a folder; none where there is none. A
// name that stands twice is found once.
func Find(data, name []byte) (found Item, err error) {
	err = Each(data, func(i Item) bool {
		if bytes.Equal(i.Name, name) {
			found = i
		}
		return found.None()
	})
	return found, err
}
