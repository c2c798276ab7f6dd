package queue

import (
	"context"
	"runtime"
	"sync"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/queue/gate"
)

// Bounds of reading ahead: how many entries make it worth while, how many are read
// at a time, how far before their turn, and how many are remembered as read.
const (
	lookStep  = 250 // heads that are worth another core
	aheadFrom = 8
	aheadStep = 25
	aheadMost = 200
	aheadKept = 20_000
)

// ahead reads the entries whose turn comes next, and judges the contents of their
// files, on another core while those before them are merged and recorded. It
// decides nothing: what it has not read is read when its turn comes.
type ahead struct {
	feed  *git.Feed
	rules *gate.Gate
	read  map[git.Hash]bool // heads that need no reading any more

	mu    sync.Mutex
	turn  *sync.Cond
	list  []Waiting
	at    map[string]int // position in list, by entry
	now   int            // the position whose turn it is
	ended bool
	done  sync.WaitGroup
}

func newAhead(repo *git.Repo, rules *gate.Gate) *ahead {
	a := &ahead{feed: repo.Feed(), rules: rules, read: map[git.Hash]bool{}}
	a.turn = sync.NewCond(&a.mu)
	return a
}

// look reads the commits at the heads of the queue that are new into known, many of
// them on all cores.
func (a *ahead) look(refs []git.RefValue, known map[git.Hash]Waiting) {
	var heads []git.Hash
	for _, r := range refs {
		if _, ok := known[r.Hash]; !ok {
			heads = append(heads, r.Hash)
		}
	}
	found := make([]Waiting, len(heads))
	var readers sync.WaitGroup
	part := max(lookStep, (len(heads)+runtime.NumCPU()-1)/runtime.NumCPU())
	for from := 0; from < len(heads); from += part {
		readers.Go(func() {
			for i := from; i < min(from+part, len(heads)); i++ {
				found[i] = look(a.rules.Repo, heads[i])
			}
		})
	}
	readers.Wait()
	for i, h := range heads {
		known[h] = found[i]
	}
}

// begin reads ahead for the entries that a pass will take up in this order; stop
// must be called before the next begin.
func (a *ahead) begin(ctx context.Context, rules config.Gate, list []Waiting) {
	if len(list) < aheadFrom {
		return
	}
	a.list, a.now, a.ended = list, 0, false
	a.at = make(map[string]int, len(list))
	for i, w := range list {
		a.at[w.Entry] = i
	}
	if len(a.read) > aheadKept {
		a.read = map[git.Hash]bool{}
	}
	a.done.Go(func() { a.run(ctx, rules) })
}

// reached says whose turn it is.
func (a *ahead) reached(entry string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at, ok := a.at[entry]; ok && at > a.now {
		a.now = at
		a.turn.Signal()
	}
}

// stop ends the reading and waits for it.
func (a *ahead) stop() {
	a.mu.Lock()
	a.ended = true
	a.turn.Signal()
	a.mu.Unlock()
	a.done.Wait()
}

// close ends what reads.
func (a *ahead) close() error { return a.feed.Close() }

func (a *ahead) run(ctx context.Context, rules config.Gate) {
	for next := 0; ; {
		var step []git.Hash
		if next, step = a.next(next); len(step) == 0 && next == len(a.list) {
			return
		}
		// What cannot be read or judged now is said when its turn comes.
		if err := a.feed.Bring(ctx, step); err != nil {
			return
		}
		for _, head := range step {
			c, err := a.rules.Repo.Commit(head)
			if err == nil && len(c.Parents) > 0 {
				_ = a.rules.Foresee(ctx, rules, c.Parent(), head)
			}
			a.read[head] = true
		}
	}
}

// next waits until more is to be read, and gives it; nothing when there is no more.
func (a *ahead) next(from int) (int, []git.Hash) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !a.ended && from < len(a.list) && from > a.now+aheadMost {
		a.turn.Wait()
	}
	if a.ended {
		return len(a.list), nil
	}
	var step []git.Hash
	if from <= a.now { // overtaken: what comes at once is read sooner by whoever takes it up
		from = a.now + aheadStep
	}
	for ; from < len(a.list) && len(step) < aheadStep; from++ {
		if w := a.list[from]; !a.read[w.Head] && !w.Landed {
			step = append(step, w.Head)
		}
	}
	return min(from, len(a.list)), step
}
