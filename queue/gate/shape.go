package gate

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"greenward/internal/config"
	"greenward/internal/git"
)

// shapes judges what stands where in the tree, and no file's content.
func (l *landing) shapes() error {
	for _, c := range l.changes {
		if c.now.Hash.IsZero() {
			continue
		}
		l.denied(c)
		if c.old.Hash.IsZero() && (dotGit(c.path) || dots(c.path)) {
			l.find("names", c.path, "is a path that git, or a file system, takes for another place: give it another name")
		}
		if strings.HasPrefix(c.path, "tasks/") && (c.now.Mode != git.ModeFile || !strings.HasSuffix(c.path, ".md")) {
			l.find("tasks", c.path, "is no task file: below tasks/ stand the run's files alone, and they end in .md; put it elsewhere")
		}
		switch {
		case c.now.Mode == git.ModeSubmodule && c.old.Mode != git.ModeSubmodule:
			if err := l.nested(c); err != nil {
				return err
			}
		case c.now.Mode == git.ModeSymlink:
			if err := l.link(c); err != nil {
				return err
			}
		}
	}
	for _, pair := range l.clashes {
		l.find("case", pair[0], "differs from %q in letter case alone, and many file systems can hold only one of them: rename it", pair[1])
	}
	return nil
}

func (l *landing) denied(c change) {
	if !c.old.Hash.IsZero() {
		return
	}
	for _, glob := range l.rules.Deny {
		if config.Match(glob, c.path) {
			l.find("deny", c.path, "matches %q of queue.gate.deny: leave it out, or have the policy changed first", glob)
			return
		}
	}
}

// nested refuses a repository inside the repository, unless it is a submodule.
func (l *landing) nested(c change) error {
	modules, err := l.Repo.File(l.to, ".gitmodules")
	if err != nil && !errors.Is(err, git.ErrNotFound) {
		return fmt.Errorf("read .gitmodules: %w", err)
	}
	for line := range strings.Lines(string(modules)) {
		name, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(name) == "path" && strings.Trim(strings.TrimSpace(value), `"`) == c.path {
			return nil
		}
	}
	l.find("nested", c.path, "is a git repository of its own, and its files are not in the change: remove its .git and add the files, or leave it out (git rm --cached), or name it in .gitmodules")
	return nil
}

// link refuses a symbolic link that leads out of the tree.
func (l *landing) link(c change) error {
	size, err := l.Repo.Size(c.now.Hash)
	if err != nil {
		return err
	}
	if size > maxLink {
		l.find("symlink", c.path, "is a symbolic link of %d bytes: no file system follows it", size)
		return nil
	}
	data, err := l.Repo.Blob(c.now.Hash)
	if err != nil {
		return err
	}
	target := strings.ReplaceAll(string(data), `\`, "/")
	switch to := path.Join(path.Dir(c.path), target); {
	case target == "" || strings.HasPrefix(target, "/") || len(target) > 1 && target[1] == ':':
		l.find("symlink", c.path, "is a symbolic link to %q, which is no place in the repository: link to a relative path", target)
	case to == ".." || strings.HasPrefix(to, "../"):
		l.find("symlink", c.path, "is a symbolic link to %q, which leads out of the repository: link to a path inside it", target)
	case dotGit(to):
		l.find("symlink", c.path, "is a symbolic link to %q, which leads into a git directory: link elsewhere", target)
	}
	return nil
}

// maxLink is the longest path that Linux follows.
const maxLink = 4096

// dotGit reports whether a component of a path is .git, or what Windows and
// macOS take for it.
func dotGit(name string) bool {
	for part := range strings.SplitSeq(strings.ReplaceAll(name, `\`, "/"), "/") {
		bare, _, _ := strings.Cut(part, ":")
		bare = strings.ToLower(strings.TrimRight(strings.Map(visible, bare), " ."))
		if bare == ".git" || bare == "git~1" {
			return true
		}
	}
	return false
}

// dots reports whether a path leads somewhere else than it reads.
func dots(name string) bool {
	for part := range strings.SplitSeq(strings.ReplaceAll(name, `\`, "/"), "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// visible drops the characters that HFS+ ignores in names.
func visible(r rune) rune {
	if r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff {
		return -1
	}
	return r
}
