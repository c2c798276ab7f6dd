package designs

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// What the time of working agents goes to.
const (
	onUseful     = "useful work"
	onUndone     = "work that did not stay or served nothing"
	onGivenBack  = "tasks given back"
	onConflicts  = "settling conflicts"
	onBroken     = "working around what is broken"
	onMending    = "mending what others broke"
	onState      = "claiming in a shared file"
	onChecks     = "checks"
	onGit        = "git"
	onWaiting    = "waiting"
	onUnfinished = "work unfinished at the end"
)

// gitFull is the share of one git's time from which on git is called the limit.
const gitFull = 0.8

// spend adds up what the workers' time went to.
func (w *world) spend(end time.Duration) {
	w.Time = map[string]float64{}
	whole := end.Hours() * float64(max(1, len(w.workers)))
	for _, a := range w.workers {
		w.Time[onWaiting] += a.idle.Hours() / whole
		for on, d := range a.spent {
			w.Time[on] += d.Hours() / whole
		}
	}
	hot, tasks := 0, 0
	for _, h := range w.line {
		l := w.commits[h]
		if l.task == nil {
			continue
		}
		on := onUseful
		if l.mend || l.undo || l.bug > 0 || !l.task.useful {
			on = onUndone
		}
		w.Time[on] += l.took.Hours() / whole
		if tasks++; slices.ContainsFunc(l.task.files, w.isHot) {
			hot++
		}
	}
	w.Hot = float64(hot) / float64(max(1, tasks))
	rest := 1.
	for _, on := range slices.Sorted(maps.Keys(w.Time)) { // in order: sums of fractions are rounded
		rest -= w.Time[on]
	}
	w.Time[onUnfinished] = max(0, rest)
}

// isHot reports whether a file is one of the ten hottest.
func (w *world) isHot(name string) bool {
	for i := range min(10, w.p.Files) {
		if name == hot(i) {
			return true
		}
	}
	return false
}

// Baseline is one agent alone, over several seeds.
type Baseline struct {
	Useful float64            `json:"useful_per_hour"` // mean
	Error  float64            `json:"standard_error"`  // of Useful
	Time   map[string]float64 `json:"time"`            // mean of Result.Time
	Seeds  int                `json:"seeds"`
}

// Alone is what one agent alone does by a design, over so many seeds.
func (l *Lab) Alone(ctx context.Context, name string, seeds int) (Baseline, error) {
	at, leave, err := l.site(ctx)
	if err != nil {
		return Baseline{}, err
	}
	kept, site := l.Seed, l.shared
	l.shared = at // one life is so short that a repository for each would cost more
	defer func() {
		l.Seed, l.shared = kept, site
		_ = leave() // it only ends a process
	}()
	b := Baseline{Time: map[string]float64{}, Seeds: seeds}
	squares := 0.
	for i := range seeds {
		l.Seed = kept + uint64(i)
		r, err := l.Run(ctx, name, 1, true)
		if err != nil {
			return b, err
		}
		b.Useful += r.Useful
		squares += r.Useful * r.Useful
		for on, share := range r.Time {
			b.Time[on] += share / float64(seeds)
		}
	}
	n := float64(max(1, seeds))
	b.Useful /= n
	if n > 1 {
		b.Error = math.Sqrt(max(0, squares/n-b.Useful*b.Useful) / (n - 1))
	}
	return b, nil
}

// LimitOf names what keeps a design from being linear in its agents: what takes so
// much more of their time than of one agent alone as nothing else does. The git of
// this machine is the limit where its merges, at the speed measured, fill most of the
// time.
func LimitOf(alone Baseline, r Result) string {
	if used := r.GitAsked * r.GitSeconds / float64(max(1, r.Merges)); used >= gitFull {
		return fmt.Sprintf("git of this machine, busy %.0f %% of the time", 100*used)
	}
	worst := ""
	for _, on := range slices.Sorted(maps.Keys(r.Time)) {
		if on != onUseful && (worst == "" || r.Time[on]-alone.Time[on] > r.Time[worst]-alone.Time[worst]) {
			worst = on
		}
	}
	if worst == "" || r.Time[worst]-alone.Time[worst] < 0.01 {
		return "nothing: no cost grows by a hundredth of the agents' time"
	}
	return fmt.Sprintf("%s: %.0f %% of the agents' time, %.0f %% of one alone", worst, 100*r.Time[worst], 100*alone.Time[worst])
}
