package gate

import (
	"fmt"
	"path"
	"strings"

	"greenward/internal/git"
)

// change is a path that differs between two trees. A side that is not there has
// a zero Hash.
type change struct {
	path     string
	old, now git.Entry
}

// differ compares trees and keeps what differs.
type differ struct {
	repo    *git.Repo
	changes []change
	clashes [][2]string
	plain   bool // names that differ in case alone are not looked for
}

// folder compares two trees that stand at a path.
func (d *differ) folder(before, after git.Hash, at string) error {
	if before == after {
		return nil
	}
	differing, err := d.repo.Differing(before, after)
	if err != nil {
		return fmt.Errorf("read folder %q: %w", at, err)
	}
	var added []string
	for _, pair := range differing {
		if pair[0].Hash.IsZero() {
			added = append(added, pair[1].Name)
		}
		if err := d.entry(at, pair[0], pair[1]); err != nil {
			return err
		}
	}
	if len(added) > 0 && !d.plain {
		return d.clash(at, added, after)
	}
	return nil
}

// entry compares one name of a folder; either side may be absent.
func (d *differ) entry(at string, old, now git.Entry) error {
	if old.Hash == now.Hash && old.Mode == now.Mode {
		return nil
	}
	name := old.Name + now.Name
	if old.Name == now.Name {
		name = now.Name
	}
	// Not path.Join, which would make another name of an odd one.
	if at != "" {
		name = at + "/" + name
	}
	if old.Mode == git.ModeTree || now.Mode == git.ModeTree {
		return d.folder(old.Hash, now.Hash, name)
	}
	d.changes = append(d.changes, change{name, old, now})
	return nil
}

// clash finds added names that differ from another in letter case alone.
func (d *differ) clash(at string, added []string, all git.Hash) error {
	folds := make(map[string][]string, len(added))
	for _, name := range added {
		fold := strings.ToLower(name)
		folds[fold] = append(folds[fold], name)
	}
	longest := 0
	for fold := range folds {
		longest = max(longest, len(fold))
	}
	var low []byte
	clashed := map[string]string{} // an added name to the first other
	err := d.repo.EachName(all, func(name []byte) bool {
		if len(name) > 4*longest {
			return true // no letter takes four times as much as another
		}
		if low = lower(low[:0], name); low == nil {
			low = []byte(strings.ToLower(string(name)))
		}
		for _, other := range folds[string(low)] {
			if _, found := clashed[other]; !found && other != string(name) {
				clashed[other] = string(name)
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("read folder %q: %w", at, err)
	}
	for _, name := range added {
		if other, found := clashed[name]; found {
			d.clashes = append(d.clashes, [2]string{path.Join(at, name), path.Join(at, other)})
		}
	}
	return nil
}

// lower appends a name in small letters; nil where it is no plain ASCII.
func lower(to, name []byte) []byte {
	for _, c := range name {
		switch {
		case c >= 0x80:
			return nil
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		to = append(to, c)
	}
	return to
}
