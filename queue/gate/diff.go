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
	olds, err := d.repo.Tree(before)
	if err != nil {
		return fmt.Errorf("read folder %q: %w", at, err)
	}
	news, err := d.repo.Tree(after)
	if err != nil {
		return fmt.Errorf("read folder %q: %w", at, err)
	}
	var added []string
	for i, j := 0, 0; i < len(olds) || j < len(news); {
		var old, now git.Entry
		switch {
		case i < len(olds) && j < len(news) && olds[i] == news[j]: // nearly all are
			i, j = i+1, j+1
			continue
		case j == len(news) || i < len(olds) && key(olds[i]) < key(news[j]):
			old = olds[i]
			i++
		case i == len(olds) || key(news[j]) < key(olds[i]):
			now = news[j]
			added = append(added, now.Name)
			j++
		default:
			old, now = olds[i], news[j]
			i, j = i+1, j+1
		}
		if err := d.entry(at, old, now); err != nil {
			return err
		}
	}
	if len(added) > 0 && !d.plain {
		d.clash(at, added, news)
	}
	return nil
}

// key orders the entries of a tree as git does, a folder by its name and a slash.
func key(e git.Entry) string {
	if e.Mode == git.ModeTree {
		return e.Name + "/"
	}
	return e.Name
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
func (d *differ) clash(at string, added []string, all []git.Entry) {
	byFold := make(map[string][]string, len(all))
	for _, e := range all {
		fold := strings.ToLower(e.Name)
		byFold[fold] = append(byFold[fold], e.Name)
	}
	for _, name := range added {
		for _, other := range byFold[strings.ToLower(name)] {
			if other != name {
				d.clashes = append(d.clashes, [2]string{path.Join(at, name), path.Join(at, other)})
				break
			}
		}
	}
}
