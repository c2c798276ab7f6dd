// Package gate owns the mechanical rules that a landing is held to before any
// check runs: what may stand in a tree, whatever the change means. It reads
// objects in process, starts nothing but the parsers that the policy names, and
// decides from two commits and the newest history of main alone. It runs no checks
// and knows of no queue.
//
// A rule judges what the landing brings, never what main has already, and each
// can be turned off for a path by queue.gate.skip:
//
//	deny      a new path matches queue.gate.deny
//	max_file  a file is larger than queue.gate.max_file
//	banned    a file gains a text of queue.gate.banned
//	markers   a file gains conflict markers
//	parse     a Go, JSON or YAML file, or one that queue.gate.parse has a command
//	          for, that parsed, or is new, does not parse
//	secrets   a file gains what is a key or a token by its form
//	binary    a compiled program is added
//	lfs       a file of Git LFS is there with its content, or a pointer where no file
//	          of Git LFS is
//	nested    a repository is added that .gitmodules does not name
//	names     a path that some file systems take for .git
//	case      a new path differs from another in letter case alone
//	symlink   a link leads out of the tree
//	trailers  a hand-off that git does not read as trailers
//	reverts   a file goes back to an older version, and the change does not say so
//	duplicate a change repeats, line by line, one that landed shortly before
//
// Files that exist to be odd are left alone by markers, parse, secrets, lfs and
// binary: those below testdata, fixtures, __fixtures__ or __snapshots__.
package gate

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"greenward/internal/config"
	"greenward/internal/git"
)

// A Finding is one path that breaks a rule.
type Finding struct {
	Rule string
	Path string
	Why  string // what is wrong and the cure, to stand after the path
}

// Gate judges landings on one repository. It remembers the newest history of
// main between calls. Only Foresee is safe for concurrent use.
type Gate struct {
	Repo *git.Repo // required

	past  history
	ahead foreseen
}

// Check judges what a landing changes between two commits, from being main
// before it and an ancestor of to by first parents. The findings are in order of
// their paths; none: it may pass.
func (g *Gate) Check(ctx context.Context, rules config.Gate, from, to git.Hash) ([]Finding, error) {
	l := landing{Gate: g, rules: rules, from: from, to: to}
	if err := l.read(); err != nil {
		return nil, fmt.Errorf("gate %s: %w", to.Short(), err)
	}
	contents := func() error { return l.contents(ctx) }
	for _, judge := range []func() error{l.shapes, contents, l.messages, l.history} {
		if err := judge(); err != nil {
			return nil, fmt.Errorf("gate %s: %w", to.Short(), err)
		}
	}
	g.past.note(l)
	slices.SortStableFunc(l.found, func(a, b Finding) int { return cmp.Compare(a.Path, b.Path) })
	return l.found, nil
}

// landing is what one call judges.
type landing struct {
	*Gate
	rules    config.Gate
	from, to git.Hash
	changes  []change
	clashes  [][2]string                // a new path, and the one that it differs from in case alone
	had      map[git.Hash]bool          // blobs that the changed paths held before
	commits  []git.Commit               // that the landing adds, newest first
	attrs    map[string][]attributeLine // by folder, once read
	found    []Finding
}

// compare finds what the landing changes.
func (l *landing) compare() error {
	before, err := l.Repo.TreeOf(l.from)
	if err != nil {
		return err
	}
	after, err := l.Repo.TreeOf(l.to)
	if err != nil {
		return err
	}
	d := differ{repo: l.Repo}
	if err := d.folder(before, after, ""); err != nil {
		return err
	}
	l.changes, l.clashes = d.changes, d.clashes
	l.had = make(map[git.Hash]bool, len(l.changes))
	for _, c := range l.changes {
		l.had[c.old.Hash] = true
	}
	return nil
}

func (l *landing) read() error {
	if err := l.compare(); err != nil {
		return err
	}
	for c, err := range l.Repo.History(l.to, l.from) {
		if err != nil {
			return err
		}
		if l.commits = append(l.commits, c); len(l.commits) >= maxCommits {
			break
		}
	}
	return nil
}

// maxCommits bounds how many messages of one landing are read.
const maxCommits = 1_000

// find notes a finding unless the rule is turned off for the path.
func (l *landing) find(rule, name, format string, args ...any) {
	if !l.skipped(rule, name) {
		l.found = append(l.found, Finding{rule, name, fmt.Sprintf(format, args...)})
	}
}

func (l *landing) skipped(rule, name string) bool {
	return slices.ContainsFunc(l.rules.Skip, func(s config.Skip) bool {
		return s.Rule == rule && slices.ContainsFunc(s.Paths, func(glob string) bool { return config.Match(glob, name) })
	})
}

// fixture reports whether a file exists to be odd.
func fixture(name string) bool {
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		switch part {
		case "testdata", "fixtures", "fixture", "__fixtures__", "__snapshots__":
			return true
		}
	}
	return false
}
