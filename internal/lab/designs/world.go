package designs

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"greenward/internal/git"
)

// world is the repository, the goal and the counts of one run.
type world struct {
	p     Params
	clock *clock
	repo  *git.Stage
	merge func(git.MergeInput) (git.Merged, error)
	store func() error // what was collected; moves the real ref
	epoch time.Time
	seed  uint64
	now   func() time.Time // real time, for what git costs

	tip          git.Hash
	moved        int               // how often
	commits      map[git.Hash]land // landings by commit, in order of `line`
	line         []git.Hash
	cum          []float64 // of the files' weights
	tasks        int
	open         []*task // being worked on, where nobody keeps order
	bugs         map[int]bug
	redFrom      time.Duration // -1: main passes
	greenRedFrom time.Duration // -1: green passes
	workers      []*agent
	scanned      map[git.Hash]int // bugs by content
	broke        int              // landings that brought a bug
	off          bool             // the design runs without its flaw
	gate         *keeper          // nil: nobody watches

	Result
}

// task is a piece of the goal, or none of it.
type task struct {
	id     int
	owner  string // its planner
	files  []string
	useful bool
	done   bool
}

// land is what came onto main.
type land struct {
	task *task
	mend bool // of a bug, or a revert: progress for nobody
	bug  int
	undo bool // was taken back
	seen bool // green has it
	took time.Duration
}

// bug is a breakage that a change brought.
type bug struct {
	path string
	by   git.Hash // zero until it lands
}

// change is what an agent hands in.
type change struct {
	base, head git.Hash
	land       land
}

func hot(i int) string { return fmt.Sprintf("d%02d/f%03d.txt", i/31, i) }

// found makes the repository.
func (w *world) found() error {
	blob := make([]byte, 0, w.p.Lines*8)
	for l := range w.p.Lines {
		blob = fmt.Appendf(blob, "line %d\n", l)
	}
	edits := make([]git.Edit, w.p.Files)
	total := 0.0
	for i := range edits {
		hash, err := w.repo.WriteBlob(fmt.Appendf(nil, "file %d\n%s", i, blob))
		if err != nil {
			return err
		}
		edits[i] = git.Edit{Path: hot(i), Hash: hash}
		total += math.Pow(float64(i+1)+w.p.HotShift, -w.p.HotPower)
		w.cum = append(w.cum, total)
	}
	empty, err := w.repo.WriteTree(nil)
	if err != nil {
		return err
	}
	tree, err := w.repo.EditTree(empty, edits)
	if err != nil {
		return err
	}
	if w.tip, err = w.commit(tree, nil, "Begin"); err != nil {
		return err
	}
	return w.store()
}

func (w *world) commit(tree git.Hash, parents []git.Hash, message string) (git.Hash, error) {
	who := git.Identity{Name: "agent", Email: "agent@lab.invalid", When: w.epoch.Add(w.clock.now)}
	return w.repo.WriteCommit(git.CommitInput{Tree: tree, Parents: parents, Author: who, Committer: who, Message: message})
}

// task is a new one. Hot files are hot for all.
func (w *world) task(a *agent, useful bool) *task {
	w.tasks++
	t := &task{id: w.tasks, useful: useful}
	count := 1
	if a.rand.Float64() >= w.p.OneFile {
		count = min(2+a.rand.IntN(2), w.p.Files)
	}
	for tries := 0; len(t.files) < count; tries++ {
		i, _ := slices.BinarySearch(w.cum, a.rand.Float64()*w.cum[len(w.cum)-1])
		name := hot(min(i, len(w.cum)-1))
		if slices.Contains(t.files, name) || tries < 20 && w.gate.holds(name) {
			continue
		}
		t.files = append(t.files, name)
	}
	return t
}

// think is how long a task takes an agent, on a clean base and on this one.
func (w *world) think(a *agent, t *task, base git.Hash) (clean, here time.Duration, err error) {
	clean = time.Duration(float64(w.p.Task) * math.Exp(w.p.TaskSigma*a.rand.NormFloat64()))
	here = clean
	broken, err := w.broken(base, t.files)
	if len(broken) > 0 {
		here = time.Duration(float64(clean) * (1 + w.p.Rework))
	}
	return clean, here, err
}

// write is a task done on base: some lines of each file anew, one of them a bug now
// and then.
func (w *world) write(r *rand.Rand, t *task, base git.Hash) (change, error) {
	c := change{base: base, land: land{task: t}}
	wrong := -1
	if r.Float64() < w.p.Bug {
		w.Bugs++
		c.land.bug = w.Bugs
		wrong = r.IntN(len(t.files))
	}
	edits := make([]git.Edit, len(t.files))
	for i, name := range t.files {
		text, err := w.repo.File(base, name)
		if err != nil {
			return c, err
		}
		lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		at := r.IntN(max(1, len(lines)-w.p.Hunk))
		for l := range w.p.Hunk {
			lines[min(at+l, len(lines)-1)] = fmt.Appendf(nil, "task %d at %d, line %d", t.id, w.clock.now, l)
		}
		if i == wrong {
			lines[at] = bugLine(c.land.bug)
			w.bugs[c.land.bug] = bug{path: name}
		}
		if edits[i], err = w.edit(name, lines); err != nil {
			return c, err
		}
	}
	return c, w.onto(&c, edits, fmt.Sprintf("Task %d", t.id))
}

func bugLine(id int) []byte { return fmt.Appendf(nil, "bug %d", id) }

func (w *world) edit(name string, lines [][]byte) (git.Edit, error) {
	hash, err := w.repo.WriteBlob(append(bytes.Join(lines, []byte("\n")), '\n'))
	return git.Edit{Path: name, Hash: hash}, err
}

// onto makes the edits the head of c.
func (w *world) onto(c *change, edits []git.Edit, message string) error {
	tree, err := w.repo.EditTree(c.base, edits)
	if err != nil {
		return err
	}
	c.head, err = w.commit(tree, []git.Hash{c.base}, message)
	return err
}

// broken are the bugs at a commit, in any file or in some: what a check finds.
func (w *world) broken(at git.Hash, files []string) ([]int, error) {
	var out []int
	for id, b := range w.bugs {
		if b.by.IsZero() || files != nil && !slices.Contains(files, b.path) {
			continue
		}
		text, err := w.repo.File(at, b.path)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(bytes.Split(text, []byte("\n")), func(l []byte) bool { return bytes.Equal(l, bugLine(id)) }) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out, nil
}

// rebase merges a change onto main's tip. A conflict is no error: ok is false.
func (w *world) rebase(c change) (head git.Hash, ok bool, err error) {
	if c.base == w.tip {
		return c.head, true, nil
	}
	began := w.now()
	defer func() { w.GitSeconds += w.now().Sub(began).Seconds() }()
	w.Merges++
	out, err := w.merge(git.MergeInput{Base: c.base, Ours: w.tip, Theirs: c.head})
	if err != nil {
		return "", false, err
	}
	if len(out.Conflicts) > 0 {
		w.Conflicts++
		w.gate.refused(c.land.task, out.Conflicts)
		return "", false, nil
	}
	was, err := w.repo.Commit(c.head)
	if err != nil {
		return "", false, err
	}
	head, err = w.commit(out.Tree, []git.Hash{w.tip}, was.Message)
	return head, true, err
}

// move makes head main's tip.
func (w *world) move(head git.Hash, l land) error {
	w.tip = head
	w.moved++
	w.Landed++
	if b, ok := w.bugs[l.bug]; ok && l.bug > 0 {
		w.broke++
		b.by = head
		w.bugs[l.bug] = b
	}
	if t := l.task; t != nil && !l.mend {
		if t.done {
			w.Duplicates++
			l.mend = true
		}
		t.done = true
	}
	w.commits[head] = l
	w.line = append(w.line, head)
	if err := w.gate.landed(head, l); err != nil {
		return err
	}
	if err := w.colour(); err != nil || w.repo.Pending() < 400 {
		return err
	}
	return w.store()
}

// colour keeps account of how long main is red, and forgets the bugs that are gone.
func (w *world) colour() error {
	live, err := w.broken(w.tip, nil)
	if err != nil {
		return err
	}
	for id, b := range w.bugs {
		if !b.by.IsZero() && !slices.Contains(live, id) {
			delete(w.bugs, id)
		}
	}
	w.paint(&w.redFrom, &w.Red, len(live) > 0)
	return nil
}

// mend is a change onto main's tip that takes a bug away.
func (w *world) mend(id int) (change, error) {
	b := w.bugs[id]
	c := change{base: w.tip, land: land{mend: true}}
	text, err := w.repo.File(w.tip, b.path)
	if err != nil {
		return c, err
	}
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	for i, l := range lines {
		if bytes.Equal(l, bugLine(id)) {
			lines[i] = fmt.Appendf(nil, "mended %d at %d", id, w.clock.now)
		}
	}
	e, err := w.edit(b.path, lines)
	if err != nil {
		return c, err
	}
	return c, w.onto(&c, []git.Edit{e}, fmt.Sprintf("Mend %d", id))
}
