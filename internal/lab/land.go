package lab

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"
)

// Land measures how fast the lander lands changes that were prepared beforehand,
// beside what else one could do, in one run on copies of one repository.
type Land struct {
	Source   *git.Repo // required: only read
	Main     git.Hash  // required: the commit that main begins at
	Dir      string    // required: an empty directory for the copies
	Changes  int       // required
	Batch    int       // required: landings a transaction
	SameFile float64   // share of changes that touch a file that another one touches, elsewhere in it
	Audit    bool      // recompute what was landed
	Now      func() time.Time
	Say      func(format string, args ...any)

	heads  []prepared
	landed []time.Time // by the run that is measured, where it tells
}

// way lands the changes on a repository: what it returns does so, and tells how many.
type way struct {
	name  string
	begin begin
	syncs bool // it waits for the disk
}

// begin prepares a way of landing on a repository.
type begin func(context.Context, *git.Repo, *LandReport) (func() (int, error), error)

// prepared is one change of a Land.
type prepared struct {
	name string
	head git.Hash
	path string
	blob git.Hash
}

// LandReport is what a Land found.
type LandReport struct {
	Files     int                `json:"files"`
	Commits   int                `json:"commits"` // of main's history, before
	Changes   int                `json:"changes"`
	Batch     int                `json:"batch"`
	SameFile  int                `json:"same_file"` // changes whose file another one touches
	Runs      []LandRun          `json:"runs"`
	Ratios    map[string]float64 `json:"ratios"` // landings/s of greenward to those of each rival that waits for the disk alike
	Merges    git.Merges         `json:"merges"` // of the first run
	Audited   int                `json:"audited"`
	Wrong     int                `json:"wrong"`      // landings whose tree is not git's
	TreeEqual bool               `json:"tree_equal"` // all runs over all changes end in one tree
}

// LandRun is one way of landing the changes.
type LandRun struct {
	Name      string  `json:"name"`
	Landed    int     `json:"landed"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	CPU       float64 `json:"cpu_ms"` // of this process and its children, a landing

	// First and Last are landings/s of the second and the last tenth, where a way
	// tells when each landed. The first tenth reads what history there is.
	First float64 `json:"first_tenth,omitempty"`
	Last  float64 `json:"last_tenth,omitempty"`

	tree git.Hash
}

// Run prepares, lands in every way, and reports.
func (l *Land) Run(ctx context.Context) (LandReport, error) {
	out := LandReport{Changes: l.Changes, Batch: l.Batch, TreeEqual: true, Ratios: map[string]float64{}}
	base, err := l.Source.CloneBare(ctx, filepath.Join(l.Dir, "base.git"), l.Main)
	if err != nil {
		return out, err
	}
	if err := l.prepare(ctx, base, &out); err != nil {
		return out, fmt.Errorf("prepare changes: %w", err)
	}
	l.Say("%d changes prepared on %d files and %d commits", l.Changes, out.Files, out.Commits)
	ways := []way{
		{"greenward", l.ours(false), true},
		{"three processes a change", l.processes(false), true},
		{"fast-import", l.fastImport(false), true},
		{"greenward, not synced", l.ours(true), false},
		{"three processes, not synced", l.processes(true), false},
		{"fast-import, not synced", l.fastImport(true), false},
	}
	if out.SameFile > 0 { // fast-import merges nothing
		ways = slices.DeleteFunc(ways, func(w way) bool { return strings.HasPrefix(w.name, "fast-import") })
	}
	ours := map[bool]float64{}
	for _, w := range ways {
		run, err := l.measure(ctx, base, w, &out)
		if err != nil {
			return out, fmt.Errorf("land by %s: %w", w.name, err)
		}
		l.Say("%s: %.0f landings/s, %.2f ms of CPU each", run.Name, run.PerSecond, run.CPU)
		out.Runs = append(out.Runs, run)
		if _, there := ours[w.syncs]; !there {
			ours[w.syncs] = run.PerSecond
		} else {
			out.Ratios[run.Name] = ours[w.syncs] / run.PerSecond
		}
		if run.Landed == l.Changes && run.tree != out.Runs[0].tree {
			out.TreeEqual = false
		}
	}
	if l.Audit {
		return out, l.audit(ctx, &out)
	}
	return out, nil
}

// prepare makes changes of one file each, all on main.
func (l *Land) prepare(ctx context.Context, repo *git.Repo, out *LandReport) error {
	list, err := repo.RevList(ctx, []git.Hash{l.Main}, nil)
	if err != nil {
		return err
	}
	files, err := repo.Files(l.Main, "")
	if err != nil {
		return err
	}
	out.Files, out.Commits = len(files), len(list)
	stage := repo.Stage()
	every := 0
	if l.SameFile > 0 {
		every = max(2, int(1/l.SameFile+0.5))
	}
	pick := picker{repo: repo, main: l.Main, files: files, step: step(len(files))}
	var last place
	for i := range l.Changes {
		name := fmt.Sprintf("lab-%06d", i)
		again := every > 0 && i%every == every-1 && last.text != nil
		at := last
		if !again {
			if at, err = pick.next(every > 0); err != nil {
				return err
			}
		}
		p := prepared{name: name, path: at.path}
		if p.head, p.blob, err = l.change(stage, p, at.text, again); err != nil {
			return err
		}
		if last = at; again {
			out.SameFile++
			last = place{}
		}
		l.heads = append(l.heads, p)
		if stage.Pending() > 5_000 {
			if err := stage.Flush(ctx); err != nil {
				return err
			}
		}
	}
	return stage.Flush(ctx)
}

// place is a file to change.
type place struct {
	path string
	text []byte // nil: it is new
}

// picker gives files far apart from each other, then new ones beside them.
type picker struct {
	repo  *git.Repo
	main  git.Hash
	files []string
	step  int // shares no factor with the count, so that every file has its turn
	n     int
}

// next is a file that can take a comment; a long one, for two changes to meet in peace.
func (p *picker) next(long bool) (place, error) {
	for p.n < len(p.files) {
		at := place{path: p.files[p.n*p.step%len(p.files)]}
		p.n++
		if _, ok := comment(at.path, ""); !ok {
			continue
		}
		entry, err := p.repo.Lookup(p.main, at.path)
		if err != nil {
			return at, err
		}
		if entry.Mode != git.ModeFile {
			continue
		}
		if at.text, err = p.repo.Blob(entry.Hash); err != nil {
			return at, err
		}
		if !long || bytes.Count(at.text, []byte("\n")) >= 8 {
			return at, nil
		}
	}
	p.n++
	return place{path: path.Join(path.Dir(p.files[p.n*p.step%len(p.files)]), fmt.Sprintf("lab-%d.txt", p.n))}, nil
}

// comment is a text as a line that changes no meaning of a file, if there is one.
func comment(name, text string) (string, bool) {
	switch path.Ext(name) {
	case ".go", ".js", ".ts", ".c", ".h", ".rs", ".java":
		return "// " + text + "\n", true
	case ".txt", ".md", ".rst":
		return text + "\n", true
	case ".yaml", ".yml", ".toml", ".sh", ".py", ".rb":
		return "# " + text + "\n", true
	}
	return "", false
}

// step is a number near a third of n that shares no factor with it.
func step(n int) int {
	common := func(a, b int) int {
		for b != 0 {
			a, b = b, a%b
		}
		return a
	}
	for s := max(1, n/3); ; s++ {
		if common(s, n) == 1 {
			return s
		}
	}
}

func (l *Land) change(stage *git.Stage, p prepared, old []byte, above bool) (head, blob git.Hash, err error) {
	added, _ := comment(p.path, p.name)
	text := append(bytes.Clone(old), "\n"+added...)
	if above {
		text = append([]byte(added+"\n"), old...)
	}
	if blob, err = stage.WriteBlob(text); err != nil {
		return "", "", err
	}
	tree, err := stage.EditTree(l.Main, []git.Edit{{Path: p.path, Hash: blob}})
	if err != nil {
		return "", "", err
	}
	who := git.Identity{Name: "Ada", Email: "ada@example.com", When: l.Now()}
	head, err = stage.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{l.Main}, Author: who, Committer: who, Message: "touch " + p.name + "\n"})
	return head, blob, err
}

// measure lands on a copy of its own.
func (l *Land) measure(ctx context.Context, base *git.Repo, w way, out *LandReport) (LandRun, error) {
	run := LandRun{Name: w.name}
	dir := filepath.Join(l.Dir, strings.NewReplacer(" ", "-", ",", "").Replace(w.name)+".git")
	repo, err := base.CloneBare(ctx, dir, l.Main)
	if err != nil {
		return run, err
	}
	land, err := w.begin(ctx, repo, out)
	if err != nil {
		return run, err
	}
	began, cpu := l.Now(), cpuTime()
	if run.Landed, err = land(); err != nil {
		return run, err
	}
	took := l.Now().Sub(began)
	run.First, run.Last = tenth(l.landed, 1), tenth(l.landed, 9)
	l.landed = nil
	run.Seconds, run.PerSecond = took.Seconds(), float64(run.Landed)/took.Seconds()
	run.CPU = float64((cpuTime() - cpu).Microseconds()) / 1000 / float64(max(run.Landed, 1))
	tip, err := repo.Resolve("refs/heads/main")
	if err != nil {
		return run, err
	}
	run.tree, err = repo.TreeOf(tip)
	return run, err
}

// tenth is how many a second landed in the n-th tenth, counted from 0.
func tenth(at []time.Time, n int) float64 {
	from, to := len(at)*n/10, len(at)*(n+1)/10
	if to-from < 2 {
		return 0
	}
	return float64(to-1-from) / max(at[to-1].Sub(at[from]).Seconds(), 1e-6)
}

// cpuTime is what this process and its ended children have used.
func cpuTime() time.Duration {
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if err := syscall.Getrusage(who, &used); err == nil { // cannot go wrong with these arguments
			total += time.Duration(used.Utime.Nano() + used.Stime.Nano())
		}
	}
	return total
}

// ours lands through the queue, from refs as any git client pushes them.
func (l *Land) ours(volatile bool) func(context.Context, *git.Repo, *LandReport) (func() (int, error), error) {
	return func(ctx context.Context, repo *git.Repo, out *LandReport) (func() (int, error), error) {
		if err := l.offer(ctx, repo, l.heads); err != nil {
			return nil, err
		}
		hub := &git.Hub{Repo: repo}
		lander := &queue.Lander{Hub: hub, Now: l.Now, By: "lab", Batch: l.Batch, Volatile: volatile}
		return func() (int, error) {
			landing, err := lander.Once(ctx)
			if err != nil {
				return 0, err
			}
			landed := 0
			for _, d := range landing.Entries {
				if d.State == journal.Landed {
					landed++
					l.landed = append(l.landed, d.At)
				}
			}
			if volatile {
				return landed, nil
			}
			out.Merges = lander.Merges()
			return landed, nil
		}, nil
	}
}

// audit recomputes what the first run landed.
func (l *Land) audit(ctx context.Context, out *LandReport) error {
	repo, err := git.Open(ctx, filepath.Join(l.Dir, "greenward.git"), l.Source.Host())
	if err != nil {
		return err
	}
	report, err := queue.Audit(ctx, &git.Hub{Repo: repo}, l.Main, "")
	out.Audited, out.Wrong = report.Commits, len(report.Mismatches)
	return err
}
