package green

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"greenward/internal/config"
	"greenward/internal/git"
)

// policy is a .greenward.yml at some tree.
type policy struct {
	config.Config
	path string // empty: the tree has none
	blob git.Hash
}

// readPolicy reads the policy of a commit or tree. A malformed one is a *config.Error.
func readPolicy(repo *git.Repo, treeish git.Hash) (policy, error) {
	cfg, path, err := config.Load(func(path string) ([]byte, error) {
		data, err := repo.File(treeish, path)
		if _, lost := errors.AsType[*git.MissingError](err); !lost && errors.Is(err, git.ErrNotFound) { // lost: nobody knows what the policy is
			return nil, fs.ErrNotExist
		}
		return data, err
	})
	if err != nil {
		return policy{path: path}, fmt.Errorf("read the policy of %s: %w", treeish.Short(), err)
	}
	p := policy{Config: cfg, path: path}
	if path != "" {
		entry, err := repo.Lookup(treeish, path)
		if err != nil {
			return policy{}, fmt.Errorf("read the policy of %s: %w", treeish.Short(), err)
		}
		p.blob = entry.Hash
	}
	return p, nil
}

// demand is one check that a candidate must pass.
type demand struct {
	ID    string // the check's name; another definition of the same name has its hash behind it
	Check config.Check
}

// demands are what the candidate's own policy requires, and what green's does
// where it says something else. old is nil where green has no say: there is no
// green yet, or a person accepted the candidate's policy.
func demands(own policy, old *policy) []demand {
	var all []demand
	for _, c := range own.Required() {
		all = append(all, demand{c.Name, c})
	}
	if old == nil {
		return all
	}
	for _, c := range old.Required() {
		mine, ok := own.Check(c.Name)
		switch {
		case !ok || !mine.Required:
			all = append(all, demand{c.Name, c})
		case mine.Def() != c.Def():
			c.Quarantine = mine.Quarantine // the name is in quarantine, however it is run
			all = append(all, demand{c.Name + "#" + c.Def(), c})
		}
	}
	return all
}

// aside says of a check in quarantine who answers for it, and until when.
func aside(k config.Check) string {
	return fmt.Sprintf("%s %s until %s", git.OneLine(k.Name), git.OneLine(k.Quarantine.Owner), k.Quarantine.Until.UTC().Format(time.RFC3339))
}

// weakened lists the required checks of green's policy that the candidate's no
// longer requires, or sets aside for longer.
func weakened(own policy, old *policy) []string {
	if old == nil {
		return nil
	}
	var gone []string
	for _, c := range old.Required() {
		if mine, ok := own.Check(c.Name); !ok || !mine.Required {
			gone = append(gone, fmt.Sprintf("%s is required by green's policy and not by the snapshot's%s", c.Name, renamed(own, old, c)))
		} else if q := mine.Quarantine; !q.Until.IsZero() && q.Until.After(c.Quarantine.Until) {
			gone = append(gone, fmt.Sprintf("%s is in quarantine until %s by the snapshot's policy and not by green's", c.Name, q.Until.Format(time.RFC3339)))
		}
	}
	return gone
}

// renamed says which new check of the candidate's policy a lost one may be called by
// now: one that runs the same, or else the one whose name goes on from the other.
func renamed(own policy, old *policy, lost config.Check) string {
	near := ""
	for _, c := range own.Required() {
		if _, known := old.Check(c.Name); known {
			continue
		}
		switch {
		case c.Run == lost.Run && c.Remote == lost.Remote:
			return fmt.Sprintf("; %s runs the same: is it the new name?", c.Name)
		case near == "" && (strings.HasPrefix(c.Name, lost.Name) || strings.HasPrefix(lost.Name, c.Name)):
			near = fmt.Sprintf("; is %s its new name?", c.Name)
		}
	}
	return near
}
