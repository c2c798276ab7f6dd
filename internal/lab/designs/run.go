package designs

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"greenward/internal/git"
	"greenward/internal/proc"
)

// Lab runs designs.
type Lab struct {
	Params Params
	Seed   uint64
	Dir    string    // required: an empty directory for the repositories
	Host   proc.Host // required
	Now    func() time.Time
	Say    func(format string, args ...any)
	Loop   func(workers int) Loop // required: the loop of codebase health of one run
	runs   int
	shared *site // of runs one after the other; nil: each has its own
}

// site is where runs have their repository, and the git that moves its refs.
type site struct {
	repo  *git.Repo
	mover *git.Mover
}

// site is the shared one, or a new one of which leave ends the git.
func (l *Lab) site(ctx context.Context) (s *site, leave func() error, err error) {
	if l.shared != nil {
		return l.shared, func() error { return nil }, nil
	}
	l.runs++
	repo, err := git.InitBare(ctx, filepath.Join(l.Dir, fmt.Sprintf("%03d.git", l.runs)), l.Host)
	if err != nil {
		return nil, nil, err
	}
	s = &site{repo: repo, mover: repo.Mover()}
	s.mover.Volatile = true
	return s, s.mover.Close, nil
}

// Result is what came of one design with so many agents.
type Result struct {
	Design     string   `json:"design"`
	Agents     int      `json:"agents"`
	Flaw       bool     `json:"flaw"`  // the design as it was; false: without its known flaw
	Hours      float64  `json:"hours"` // of virtual time
	Landed     int      `json:"landed"`
	Useful     float64  `json:"useful_per_hour"`   // distinct tasks of the goal on main, not broken
	Verified   float64  `json:"verified_per_hour"` // of these, what green vouches for
	Conflicts  int      `json:"conflicts"`
	Lost       int      `json:"lost_races"`
	GivenBack  int      `json:"given_back"`
	Duplicates int      `json:"duplicates"`
	Bugs       int      `json:"bugs"`
	Caught     int      `json:"caught"` // before they landed
	Reverts    int      `json:"reverts"`
	Promotions int      `json:"promotions"`
	Idle       float64  `json:"idle_share"`
	Red        float64  `json:"red_share"`
	GreenRed   float64  `json:"green_red_share"` // by a look at every file of what was promoted
	Linear     float64  `json:"of_linear"`       // Useful to that of so many times one agent; 0: not measured
	Reactions  []string `json:"reactions"`       // of the loop of codebase health, that were ever begun
	Limit      string   `json:"limit"`           // what keeps it from linear, as LimitOf has it; empty: not asked for
	Hot        float64  `json:"hot_share"`       // landings of tasks that touch one of the ten hottest files
	GitAsked   float64  `json:"git_asked"`       // merges a second of virtual time

	// Time is what the working agents' time went to, as shares that sum to one.
	Time map[string]float64 `json:"time"`

	Series     []Span  `json:"series"`
	Merges     int     `json:"merges"`
	GitSeconds float64 `json:"git_seconds"` // real time of these; Merges over it is the machine's limit
}

// Names are the designs' names, in order.
func Names() []string {
	var out []string
	for _, d := range all() {
		out = append(out, d.name)
	}
	return out
}

// Published is what was said of one of Names, and the flaw that can be taken away;
// empty: none is known.
func Published(name string) (said, flaw string) {
	i := slices.IndexFunc(all(), func(d design) bool { return d.name == name })
	return all()[i].ref, all()[i].flaw
}

// Run lets n agents work by a design for the hours of Params, with or without the
// design's flaw.
func (l *Lab) Run(ctx context.Context, name string, n int, flaw bool) (Result, error) {
	i := slices.IndexFunc(all(), func(d design) bool { return d.name == name })
	if i < 0 {
		return Result{}, fmt.Errorf("no design is called %q", name)
	}
	d := all()[i]
	w, closed, err := l.world(ctx, flaw)
	if err != nil {
		return Result{}, err
	}
	defer closed()
	end := time.Duration(l.Params.Hours / max(1, d.faster/2.5) * float64(time.Hour))
	w.Result = Result{Design: name, Agents: n, Flaw: flaw, Hours: end.Hours()}
	if d.faster > 0 {
		w.p.Task = time.Duration(float64(w.p.Task) / d.faster)
		w.p.Turn = time.Duration(float64(w.p.Turn) / d.faster)
	}
	if err := w.found(); err != nil {
		return w.Result, fmt.Errorf("make the repository: %w", err)
	}
	if d.health || d.tree && !flaw {
		w.gate = &keeper{world: w, look: l.Loop(n), order: Order{Workers: n}, files: map[string]int{}}
		w.clock.start(w.seed, w.gate.keep)
	}
	d.begin(w, n)
	w.watch(d.tree)
	w.record()
	if err := w.clock.run(end); err != nil {
		return w.Result, err
	}
	if err := w.store(); err != nil {
		return w.Result, err
	}
	w.sum(end)
	return w.Result, nil
}

// world makes the place of one run. What it returns beside ends the git that it has.
func (l *Lab) world(ctx context.Context, flaw bool) (*world, func(), error) {
	at, leave, err := l.site(ctx)
	if err != nil {
		return nil, nil, err
	}
	stage := at.repo.Stage()
	stage.Volatile = true
	merger := stage.Merger()
	w := &world{
		p: l.Params, clock: &clock{}, repo: stage, seed: l.Seed, now: l.Now, off: !flaw, redFrom: -1, greenRedFrom: -1,
		epoch: time.Date(2026, 2, 5, 0, 0, 0, 0, time.UTC), commits: map[git.Hash]land{}, bugs: map[int]bug{}, scanned: map[git.Hash]int{},
		merge: func(in git.MergeInput) (git.Merged, error) { return merger.MergeTree(ctx, in) },
	}
	w.store = func() error { return w.flush(ctx, at.mover) }
	return w, func() { _, _ = merger.Close(), leave() }, nil // they only end processes
}

// flush stores what was collected and moves the real main.
func (w *world) flush(ctx context.Context, mover *git.Mover) error {
	if err := w.repo.Flush(ctx); err != nil {
		return err
	}
	old, err := w.repo.Tip("refs/heads/main")
	if err != nil || old == w.tip {
		return err
	}
	return mover.Transact(ctx, []git.RefUpdate{{Ref: "refs/heads/main", Old: old, New: w.tip}})
}

// sum turns counts into rates.
func (w *world) sum(end time.Duration) {
	if w.redFrom >= 0 {
		w.Red += (end - w.redFrom).Hours()
	}
	w.Red /= end.Hours()
	if w.greenRedFrom >= 0 {
		w.GreenRed += (end - w.greenRedFrom).Hours()
	}
	w.GreenRed /= end.Hours()
	w.GitAsked = float64(w.Merges) / end.Seconds()
	w.spend(end)
	w.Idle = w.Time[onWaiting]
	for _, h := range w.line {
		l := w.commits[h]
		if l.mend || l.undo || l.bug > 0 || l.task == nil || !l.task.useful {
			continue
		}
		w.Useful += 1 / end.Hours()
		if l.seen {
			w.Verified += 1 / end.Hours()
		}
	}
}

// Sweep is how a design's verified throughput changes with half and twice of each
// assumption.
type Sweep struct {
	Assumption string             `json:"assumption"`
	Half       map[string]float64 `json:"half"`  // design → verified an hour, to that of the assumption as it is
	Twice      map[string]float64 `json:"twice"` // likewise
}

// Sweep runs the designs with n agents at half and twice of each assumption.
func (l *Lab) Sweep(ctx context.Context, names []string, n int) ([]Sweep, error) {
	base := map[string]float64{}
	for _, name := range names {
		r, err := l.Run(ctx, name, n, true)
		if err != nil {
			return nil, err
		}
		base[name] = r.Useful
	}
	kept := l.Params
	defer func() { l.Params = kept }()
	var out []Sweep
	for _, as := range slices.Sorted(maps.Keys(assumptions())) {
		s := Sweep{Assumption: as, Half: map[string]float64{}, Twice: map[string]float64{}}
		for by, into := range map[float64]map[string]float64{0.5: s.Half, 2: s.Twice} {
			l.Params = kept
			assumptions()[as](&l.Params, by)
			for _, name := range names {
				r, err := l.Run(ctx, name, n, true)
				if err != nil {
					return nil, err
				}
				into[name] = r.Useful / max(base[name], 1e-9)
			}
		}
		l.Say("swept %s", as)
		out = append(out, s)
	}
	return out, nil
}
