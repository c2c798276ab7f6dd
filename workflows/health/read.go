package health

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// Bounds of what is read.
const (
	maxLandings = 2000
	maxFile     = 4 << 20 // bytes of a file whose lines are counted
)

// Reader reads the past of a repository. It keeps what commits changed, which never
// changes; all else is read anew each time. Not safe for concurrent use.
type Reader struct {
	Repo *git.Repo // required: the hub
	Main git.Ref   // required

	kept  map[git.Hash]Landing // landings of the last look
	log   *journal.QueueLog
	green git.Hash // tip of green's log at which seen was read
	seen  []Colour // of all snapshots, oldest first
}

// Read reads the newest two windows up to now: what goes back and forth is known by
// what stood there before.
func (r *Reader) Read(now time.Time) (Past, error) {
	from := now.Add(-2 * Window)
	if r.log == nil {
		log, err := journal.LoadQueue(r.Repo)
		if err != nil {
			return Past{}, err
		}
		r.log = log
	} else if err := r.log.Refresh(); err != nil {
		return Past{}, err
	}
	p := Past{Lines: map[string]int{}}
	var err error
	if p.Landings, err = r.landings(from); err != nil {
		return p, fmt.Errorf("read what landed: %w", err)
	}
	if p.Refusals, err = r.refusals(from); err != nil {
		return p, fmt.Errorf("read what was refused: %w", err)
	}
	if p.Colours, err = r.colours(from); err != nil {
		return p, err
	}
	return p, r.lengths(p)
}

func (r *Reader) landings(from time.Time) ([]Landing, error) {
	tip, err := r.Repo.Tip(r.Main)
	if err != nil || tip.IsZero() {
		return nil, err
	}
	var line []git.Commit
	for c, err := range r.Repo.History(tip, "") {
		if err != nil {
			return nil, err
		}
		if c.Committer.When.Before(from) || len(line) == maxLandings {
			break
		}
		line = append(line, c)
	}
	slices.Reverse(line)
	place := map[git.Hash]int{}
	for i, c := range line {
		place[c.Hash] = i
	}
	kept := map[git.Hash]Landing{}
	out := make([]Landing, 0, len(line))
	for i, c := range line {
		l, known := r.kept[c.Hash]
		if !known {
			if l, err = r.landing(c); err != nil {
				return nil, err
			}
			if d, ours := r.log.ByLanded(c.Hash); ours && d.Base != nil {
				l.Behind = i // at least: its base came before all that was read
				if at, seen := place[*d.Base]; seen {
					l.Behind = i - at - 1
				}
			}
		}
		kept[c.Hash] = l
		out = append(out, l)
	}
	r.kept = kept
	return out, nil
}

// landing reads what one commit changed outside tasks/.
func (r *Reader) landing(c git.Commit) (Landing, error) {
	l := Landing{Commit: c.Hash, At: c.Committer.When, Restores: restores(c.Message)}
	l.Task, _ = c.Trailers().Get("Task")
	if len(c.Parents) == 0 {
		return l, nil
	}
	before := c.Parents[0]
	names, err := r.Repo.ChangedFiles(before, c.Hash)
	if err != nil {
		return l, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "tasks/") {
			continue
		}
		f := File{Path: name}
		for _, side := range []struct {
			in git.Hash
			to *git.Hash
		}{{before, &f.Old}, {c.Hash, &f.New}} {
			e, err := r.Repo.Lookup(side.in, name)
			if err != nil && !errors.Is(err, git.ErrNotFound) {
				return l, err
			}
			*side.to = e.Hash
		}
		l.Files = append(l.Files, f)
	}
	return l, nil
}

// restores reports whether a message says that its commit takes something back.
func restores(message string) bool {
	subject, _, _ := strings.Cut(message, "\n")
	subject = strings.ToLower(subject)
	return strings.Contains(subject, "revert") || strings.Contains(subject, "restore") || strings.Contains(subject, "roll back") ||
		strings.Contains(message, "This reverts commit")
}

func (r *Reader) refusals(from time.Time) ([]Refusal, error) {
	var out []Refusal
	for _, d := range slices.Backward(r.log.All()) {
		if d.At.Before(from) {
			break
		}
		if d.State != journal.Ejected || d.Reason == nil {
			continue
		}
		one := Refusal{At: d.At, Task: d.Task, Reason: *d.Reason, Paths: d.Paths}
		if one.Reason == journal.ReasonGate && d.Detail != nil {
			one.Rule, _, _ = strings.Cut(*d.Detail, ":")
		}
		if c, err := r.Repo.Commit(d.Head); err == nil && one.Task == "" {
			one.Task, _ = c.Trailers().Get("Task")
		} else if err != nil && !errors.Is(err, git.ErrNotFound) { // an ejected head is kept for 30 days only
			return nil, err
		}
		out = append(out, one)
	}
	slices.Reverse(out)
	return out, nil
}

func (r *Reader) colours(from time.Time) ([]Colour, error) {
	tip, err := r.Repo.Tip(git.GreenLog)
	if err != nil {
		return nil, err
	}
	if tip != r.green {
		all, err := journal.ReadPromotions(r.Repo)
		if err != nil {
			return nil, err
		}
		r.green, r.seen = tip, nil
		for _, p := range all {
			if p.Snapshot != nil && (p.Verdict == "passed" || p.Verdict == "failed") {
				r.seen = append(r.seen, Colour{At: p.At, Red: p.Verdict == "failed" && p.State != journal.Promoted})
			}
		}
	}
	first := 0
	for i, c := range r.seen {
		if c.At.Before(from) {
			first = i // the newest one before says how the window began
		}
	}
	return r.seen[first:], nil
}

// lengths counts the lines of the files that landings touched, as they are now.
func (r *Reader) lengths(p Past) error {
	tip, err := r.Repo.Tip(r.Main)
	if err != nil || tip.IsZero() {
		return err
	}
	sizes := map[git.Hash]int{}
	for _, l := range p.Landings {
		for _, f := range l.Files {
			if _, counted := p.Lines[f.Path]; counted || made(f.Path) {
				continue
			}
			e, err := r.Repo.Lookup(tip, f.Path)
			if errors.Is(err, git.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			n, known := sizes[e.Hash]
			if !known {
				if n, err = r.count(e); err != nil {
					return err
				}
				sizes[e.Hash] = n
			}
			p.Lines[f.Path] = n
		}
	}
	return nil
}

// count is the lines of a text; what is no text, or too long to be read, has none.
func (r *Reader) count(e git.Entry) (int, error) {
	if e.Mode == git.ModeSubmodule || e.Mode == git.ModeSymlink {
		return 0, nil
	}
	if size, err := r.Repo.Size(e.Hash); err != nil || size > maxFile {
		return 0, err
	}
	data, err := r.Repo.Blob(e.Hash)
	if err != nil || bytes.IndexByte(data, 0) >= 0 {
		return 0, err
	}
	return bytes.Count(data, []byte("\n")), nil
}

// made reports whether nobody writes such a file by hand.
func made(name string) bool {
	base := path.Base(name)
	return strings.HasSuffix(base, ".sum") || strings.HasSuffix(base, ".lock") || strings.HasSuffix(base, "-lock.json") || strings.Contains(base, ".min.")
}
