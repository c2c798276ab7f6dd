package gate

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"

	"greenward/internal/git"
)

const (
	window     = 200 // commits of main that are remembered
	maxTouched = 500 // paths; a commit that touches more is not remembered
	leastText  = 32  // bytes; a smaller file is too easily the same by chance
	leastAdded = 64  // bytes that a repeated change adds at least
	manyUndone = 3   // commits; a person takes back one or two, a stale copy more
)

// past is a commit of main, or a landing of several, and what it changed.
type past struct {
	from, to git.Hash
	changes  []change
}

// history remembers what the newest commits of main changed, oldest first.
type history struct {
	all     []past
	at      map[git.Hash]int // position in all, by past.to
	pending map[git.Hash]past
	grown   map[[2]git.Hash]int64 // by how many bytes a blob is longer than another
}

// note remembers a landing that may come to stand on main.
func (h *history) note(l landing) {
	if h.pending == nil || len(h.pending) > 20*window {
		h.pending = map[git.Hash]past{}
	}
	p := past{from: l.from, to: l.to}
	if len(l.changes) <= maxTouched {
		p.changes = l.changes
	}
	h.pending[l.to] = p
}

// reach makes the history end at tip. What was judged here is not read again.
func (h *history) reach(repo *git.Repo, tip git.Hash) error {
	var fresh []past // newest first
	kept := 0
	for at := tip; !at.IsZero() && len(fresh) < window; {
		if i, known := h.at[at]; known && i < len(h.all) && h.all[i].to == at {
			kept = i + 1
			break
		}
		p, judged := h.pending[at]
		if !judged {
			var err error
			if p, err = read(repo, at); err != nil {
				return err
			}
		}
		fresh = append(fresh, p)
		at = p.from
	}
	if len(fresh) == 0 && kept == len(h.all) {
		return nil
	}
	h.all = h.all[:kept]
	for _, p := range slices.Backward(fresh) {
		h.all = append(h.all, p)
	}
	if len(h.all) > 2*window {
		h.all = append([]past(nil), h.all[len(h.all)-window:]...)
		kept = 0
	}
	if kept == 0 || len(h.at) > 4*window {
		h.at, kept = make(map[git.Hash]int, 2*window), 0
	}
	for i := kept; i < len(h.all); i++ {
		h.at[h.all[i].to] = i
	}
	return nil
}

// read compares a commit with its first parent.
func read(repo *git.Repo, at git.Hash) (past, error) {
	c, err := repo.Commit(at)
	if err != nil {
		return past{}, err
	}
	p := past{from: c.Parent(), to: at}
	if p.from.IsZero() {
		return p, nil // what began there replaced nothing
	}
	before, err := repo.TreeOf(p.from)
	if err != nil {
		return past{}, err
	}
	d := differ{repo: repo, plain: true}
	if err := d.folder(before, c.Tree, ""); err != nil {
		return past{}, err
	}
	if len(d.changes) <= maxTouched {
		p.changes = d.changes
	}
	return p, nil
}

// history judges a landing by what main's newest commits did to the same paths.
func (l *landing) history() error {
	mine := map[string]change{}
	for _, c := range l.changes {
		if plainFile(c.old) && plainFile(c.now) && c.old.Hash != c.now.Hash && !generated(c.path) {
			mine[c.path] = c
		}
	}
	if len(mine) == 0 || l.declared() {
		return nil
	}
	if err := l.past.reach(l.Repo, l.from); err != nil {
		return err
	}
	newest := l.touching(mine)
	if len(newest) == 0 {
		return nil
	}
	if err := l.repeated(mine, newest); err != nil {
		return err
	}
	return l.reverted(mine, newest)
}

// touching are the newest landings on main that changed one of the paths, newest
// first.
func (l *landing) touching(mine map[string]change) []past {
	var newest []past
	for _, p := range slices.Backward(l.past.all[max(0, len(l.past.all)-window):]) {
		if slices.ContainsFunc(p.changes, func(c change) bool { _, mine := mine[c.path]; return mine }) {
			newest = append(newest, p)
		}
	}
	return newest
}

// reverted finds files that go back to an older version. A hand-off has to
// declare every one of them. A person may take a file back as it is; what is
// refused then is only what a stale copy does: a file that several commits made
// what it is goes back before all of them, or whole commits are undone beside
// what the change is about.
func (l *landing) reverted(mine map[string]change, newest []past) error {
	since, back := map[string][]git.Hash{}, map[string]int{}
	for i, p := range newest {
		for _, was := range p.changes {
			c, open := mine[was.path]
			if _, found := back[was.path]; !open || found {
				continue
			}
			since[was.path] = append(since[was.path], p.to)
			if was.old.Hash == c.now.Hash && plainFile(was.old) {
				back[was.path] = i
			}
		}
	}
	beside := l.beside(back, newest)
	for _, name := range slices.Sorted(maps.Keys(back)) {
		undone := since[name]
		if !l.handsOff() && !beside && len(undone) < manyUndone {
			continue
		}
		size, err := l.Repo.Size(mine[name].now.Hash)
		if err != nil {
			return err
		}
		if size < leastText {
			continue
		}
		short := make([]string, 0, 3)
		for _, h := range undone[:min(len(undone), 3)] {
			short = append(short, h.Short())
		}
		l.find("reverts", name, "goes back to what it was before %s, and so undoes %d commit(s): take up main's version and make the change there, or declare it by a trailer Reverts: COMMIT or Handoff-Deviation: WHY",
			strings.Join(short, ", "), len(undone))
	}
	return nil
}

// beside reports whether the landing undoes a commit whole and does something
// else too. A change that only goes back is somebody's decision.
func (l *landing) beside(back map[string]int, newest []past) bool {
	more := slices.ContainsFunc(l.changes, func(c change) bool {
		_, gone := back[c.path]
		return !gone && !generated(c.path)
	})
	if !more {
		return false
	}
	for i, p := range newest {
		gone, stays := 0, 0
		for _, c := range p.changes {
			if at, ok := back[c.path]; ok && i <= at {
				gone++
			} else if !generated(c.path) {
				stays++
			}
		}
		if gone > 0 && stays == 0 {
			return true
		}
	}
	return false
}

// handsOff reports whether the landing ends a task.
func (l *landing) handsOff() bool {
	return slices.ContainsFunc(l.commits, func(c git.Commit) bool { return len(c.Trailers().All("Task")) > 0 })
}

// repeated finds a landing that does what an older one did, line by line, on top
// of it.
func (l *landing) repeated(mine map[string]change, newest []past) error {
	for _, p := range newest {
		repeats, err := l.repeats(p)
		if err != nil {
			return err
		}
		if repeats {
			first := slices.Min(slices.Collect(maps.Keys(mine)))
			l.find("duplicate", first, "is changed as %s did shortly before, line by line, on top of it: drop what is there twice, or say Handoff-Deviation: why it is meant", p.to.Short())
			return nil
		}
	}
	return nil
}

// declared reports whether the landing says of itself that it undoes something.
func (l *landing) declared() bool {
	for _, c := range l.commits {
		t := c.Trailers()
		for _, key := range []string{"Reverts", "Repairs", "Handoff-Deviation"} {
			if _, ok := t.Get(key); ok {
				return true
			}
		}
		for line := range strings.Lines(c.Message) {
			if undoes(strings.ToLower(line)) {
				return true
			}
		}
	}
	return false
}

// undoes reports whether a line of a message says that something is undone.
func undoes(line string) bool {
	for _, word := range []string{"this reverts commit ", "revert ", "revert:", "reverts ", "reapply ", "roll back ", "rollback ", "back out ", "undo "} {
		if strings.HasPrefix(line, word) {
			return true
		}
	}
	return false
}

// generated reports whether a file is written by a tool from others, and so goes
// back by itself when they do.
func generated(name string) bool {
	switch path.Base(name) {
	case "go.mod", "go.sum", "go.work.sum", "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "Cargo.lock", "poetry.lock", "uv.lock", "Gemfile.lock", "composer.lock", "flake.lock":
		return true
	}
	return strings.HasPrefix(name, "tasks/")
}

// repeats reports whether the landing adds and removes, in the same files, the
// very lines that an older one did, and what that one added is still there.
func (l *landing) repeats(p past) (bool, error) {
	pairs := l.pairs(p)
	for _, pair := range pairs {
		// The same lines make the same difference in size, which is told sooner.
		mine, err := l.grown(pair[0])
		if err != nil {
			return false, err
		}
		theirs, err := l.grown(pair[1])
		if err != nil || mine != theirs {
			return false, err
		}
	}
	added := 0
	for _, pair := range pairs {
		n, err := l.sameLines(pair[0], pair[1])
		if err != nil || n < 0 {
			return false, err
		}
		added += n
	}
	return added >= leastAdded, nil
}

// pairs puts what the landing and an older one did to each file side by side;
// none where they did not change the same files.
func (l *landing) pairs(p past) [][2]change {
	theirs := map[string]change{}
	for _, c := range p.changes {
		if !strings.HasPrefix(c.path, "tasks/") {
			theirs[c.path] = c
		}
	}
	var pairs [][2]change
	for _, c := range l.changes {
		if strings.HasPrefix(c.path, "tasks/") {
			continue
		}
		t, ok := theirs[c.path]
		if !ok || c.old.Hash == t.old.Hash || !plainFile(c.old) || !plainFile(c.now) || !plainFile(t.old) || !plainFile(t.now) {
			return nil
		}
		pairs = append(pairs, [2]change{c, t})
	}
	if len(pairs) != len(theirs) {
		return nil
	}
	return pairs
}

// grown is by how many bytes a change made its file longer.
func (l *landing) grown(c change) (int64, error) {
	key := [2]git.Hash{c.old.Hash, c.now.Hash}
	if n, known := l.past.grown[key]; known {
		return n, nil
	}
	before, err := l.Repo.Size(c.old.Hash)
	if err != nil {
		return 0, err
	}
	after, err := l.Repo.Size(c.now.Hash)
	if err != nil {
		return 0, err
	}
	if l.past.grown == nil || len(l.past.grown) > 20*window {
		l.past.grown = map[[2]git.Hash]int64{}
	}
	l.past.grown[key] = after - before
	return after - before, nil
}

// sameLines is how many bytes both changes add where they add and remove the
// same lines, and -1 where they do not, or the older one's lines are gone.
func (l *landing) sameLines(c, t change) (int, error) {
	var texts [4][]byte
	for i, e := range []git.Entry{c.old, c.now, t.old, t.now} {
		var err error
		if texts[i], err = l.old(change{old: e}); err != nil {
			return 0, err
		}
	}
	if len(texts[0]) == 0 || isBinary(texts[1]) {
		return -1, nil
	}
	mine, theirs := lines(texts[1]), lines(texts[3])
	was := lines(texts[0])
	subtract(mine, texts[0])
	subtract(theirs, texts[2])
	added := 0
	for line, n := range mine {
		if theirs[line] != n || n > 0 && was[line] < n {
			return -1, nil
		}
		if n > 0 {
			added += n * len(line)
		}
	}
	for line, n := range theirs {
		if mine[line] != n {
			return -1, nil
		}
	}
	return added, nil
}

// lines counts the lines of a text.
func lines(text []byte) map[string]int {
	counts := map[string]int{}
	for line := range bytes.Lines(text) {
		counts[string(line)]++
	}
	return counts
}

// subtract takes a text's lines off; what comes out even is dropped.
func subtract(counts map[string]int, text []byte) {
	for line := range bytes.Lines(text) {
		counts[string(line)]--
	}
	for line, n := range counts {
		if n == 0 {
			delete(counts, line)
		}
	}
}
