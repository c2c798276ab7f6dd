package queues

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/verify"
	"greenward/queue"

	"golang.org/x/sync/errgroup"
)

// Real lands the same changes with a real check command: through greenward's
// lander, and as two other designs would, with the same slots, workspaces and
// ledger. The check waits for a second and a half, as one would for a machine elsewhere, and
// fails on every broken file.
type Real struct {
	Dir     string // required: an empty directory
	Env     git.HubInput
	Now     func() time.Time
	Changes int
	Bad     float64
	Slots   int
	Seed    uint64
	Say     func(string)

	main  git.Hash
	heads []realChange
}

// RealRun is what one design made of the changes.
type RealRun struct {
	Design    string  `json:"design"`
	Landed    int     `json:"landed"`
	Ejected   int     `json:"ejected"`
	Wrong     int     `json:"wrong"` // bad ones that landed, good ones that did not
	Runs      int     `json:"runs"`
	PerLanded float64 `json:"runs_per_landed"`
	Seconds   float64 `json:"seconds"`
	PerHour   float64 `json:"landed_per_hour"`
}

type realChange struct {
	name string
	head git.Hash
	blob git.Hash
	bad  bool
}

const realPolicy = `checks: [{name: test, run: "sleep 1.5; ! grep -rq BROKEN src"}]
queue: {policy: gated, slots: %d}
`

// borsBatch is how many changes a batch of the bors-style queue holds: a few
// failures in ten leave larger ones red nearly always.
const borsBatch = 8

// Run measures the designs one after the other.
func (r *Real) Run(ctx context.Context) ([]RealRun, error) {
	var runs []RealRun
	for _, d := range []struct {
		name string
		land func(context.Context, *realHub) (map[string]bool, error)
	}{
		{"greenward, gated", r.ours},
		{fmt.Sprintf("bors, batches of %d", borsBatch), r.bors},
		{"ordered speculation", r.ordered},
	} {
		h, err := r.hub(ctx, filepath.Join(r.Dir, fmt.Sprint("hub-", len(runs))))
		if err != nil {
			return nil, err
		}
		began := r.Now()
		landed, err := d.land(ctx, h)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
		run := RealRun{Design: d.name, Seconds: r.Now().Sub(began).Seconds()}
		for _, c := range r.heads {
			if landed[c.name] {
				run.Landed++
			} else {
				run.Ejected++
			}
			if landed[c.name] == c.bad {
				run.Wrong++
			}
		}
		lines, err := h.ledger.All()
		if err != nil {
			return nil, err
		}
		run.Runs = len(lines)
		run.PerLanded, run.PerHour = float64(run.Runs)/float64(max(run.Landed, 1)), 3600*float64(run.Landed)/run.Seconds
		runs = append(runs, run)
		r.Say(fmt.Sprintf("%s: %d landed with %d runs in %.0f s", run.Design, run.Landed, run.Runs, run.Seconds))
	}
	return runs, nil
}

// realHub is a hub of one design, with what judges on it.
type realHub struct {
	*git.Hub
	ledger *verify.Ledger
	runner *verify.Runner
	checks []config.Check
	tip    git.Hash // of a baseline's main
}

// hub makes a repository with the changes in it, the same for every design.
func (r *Real) hub(ctx context.Context, dir string) (*realHub, error) {
	if _, err := git.InitBare(ctx, dir, r.Env.Host); err != nil {
		return nil, err
	}
	in := r.Env
	in.Dir = dir
	hub, err := git.OpenHub(ctx, in)
	if err != nil {
		return nil, err
	}
	key, err := hub.Key()
	if err != nil {
		return nil, err
	}
	ledger, err := verify.OpenLedger(hub.Repo, []string{key.Public()})
	if err != nil {
		return nil, err
	}
	h := &realHub{Hub: hub, ledger: ledger, runner: &verify.Runner{
		Repo: hub.Repo, Ledger: ledger, State: hub.State(), Signer: key, Now: r.Now, Host: r.Env.Host, Slots: r.Slots, Name: "lab",
	}}
	policy, err := config.Parse(fmt.Appendf(nil, realPolicy, r.Slots))
	if err != nil {
		return nil, err
	}
	h.checks = policy.Required()
	return h, r.fill(ctx, h)
}

// fill writes main and the heads.
func (r *Real) fill(ctx context.Context, h *realHub) error {
	when := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	who := queue.Committer(when)
	policy, err := h.WriteBlob(fmt.Appendf(nil, realPolicy, r.Slots))
	if err != nil {
		return err
	}
	begin, err := h.WriteBlob([]byte("begin\n"))
	if err != nil {
		return err
	}
	tree, err := h.EditTree(git.EmptyTree, []git.Edit{{Path: config.File, Hash: policy}, {Path: "src/begin.txt", Hash: begin}})
	if err != nil {
		return err
	}
	if h.tip, err = h.WriteCommit(git.CommitInput{Tree: tree, Author: who, Committer: who, Message: "begin\n"}); err != nil {
		return err
	}
	r.main, r.heads = h.tip, nil
	rng := rand.New(rand.NewPCG(r.Seed, 11))
	for i := range r.Changes {
		c := realChange{name: fmt.Sprintf("c%04d", i), bad: rng.Float64() < r.Bad}
		text := "fine " + c.name
		if c.bad {
			text = "BROKEN " + c.name
		}
		if c.blob, err = h.WriteBlob([]byte(text + "\n")); err != nil {
			return err
		}
		if c.head, err = h.commit(r.main, []realChange{c}); err != nil {
			return err
		}
		r.heads = append(r.heads, c)
	}
	return h.Transact(ctx, "lab", []git.RefUpdate{{Ref: "refs/heads/main", New: r.main}})
}

// commit puts changes on a commit.
func (h *realHub) commit(on git.Hash, changes []realChange) (git.Hash, error) {
	var edits []git.Edit
	for _, c := range changes {
		edits = append(edits, git.Edit{Path: "src/" + c.name + ".txt", Hash: c.blob})
	}
	tree, err := h.EditTree(on, edits)
	if err != nil {
		return "", err
	}
	who := queue.Committer(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	return h.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{on}, Author: who, Committer: who, Message: changes[0].name + "\n"})
}

// ours lands through the queue.
func (r *Real) ours(ctx context.Context, h *realHub) (map[string]bool, error) {
	var updates []git.RefUpdate
	for _, c := range r.heads {
		updates = append(updates, git.RefUpdate{Ref: git.Ref(git.QueuePrefix + c.name), New: c.head})
	}
	if err := h.Transact(ctx, "lab", updates); err != nil {
		return nil, err
	}
	lander := &queue.Lander{Hub: h.Hub, Judge: h.runner, Now: r.Now, By: "lab"}
	landing, err := lander.Once(ctx)
	if err != nil {
		return nil, err
	}
	landed := map[string]bool{}
	for _, d := range landing.Entries {
		if d.State == journal.Landed {
			landed[d.Entry[:5]] = true
		}
	}
	return landed, nil
}

// passes judges changes on top of the baseline's main.
func (h *realHub) passes(ctx context.Context, changes []realChange) (git.Hash, bool, error) {
	tip, err := h.commit(h.tip, changes)
	if err != nil {
		return "", false, err
	}
	report, err := h.runner.Judge(ctx, verify.Subject{Commit: tip}, h.checks, false)
	return tip, report.All() == verify.Passed, err
}

// bors tests one batch at a time. A red one is cut in halves, which are tested in
// turn, the second one too where the first has passed.
func (r *Real) bors(ctx context.Context, h *realHub) (map[string]bool, error) {
	landed := map[string]bool{}
	var batches [][]realChange
	for rest := r.heads; len(rest) > 0; {
		n := min(borsBatch, len(rest))
		batches = append(batches, rest[:n])
		rest = rest[n:]
	}
	for len(batches) > 0 {
		batch := batches[0]
		batches = batches[1:]
		tip, passed, err := h.passes(ctx, batch)
		switch {
		case err != nil:
			return nil, err
		case passed:
			if err := h.land(ctx, tip); err != nil {
				return nil, err
			}
			for _, c := range batch {
				landed[c.name] = true
			}
		case len(batch) > 1:
			half := len(batch) / 2
			batches = append([][]realChange{batch[:half], batch[half:]}, batches...)
		}
	}
	return landed, nil
}

func (h *realHub) land(ctx context.Context, tip git.Hash) error {
	err := h.Transact(ctx, "lab", []git.RefUpdate{{Ref: "refs/heads/main", New: tip, Old: h.tip}})
	h.tip = tip
	return err
}

// ordered tests as many changes as there are slots, each on those before it, and
// lands those before the first failure, which leaves.
func (r *Real) ordered(ctx context.Context, h *realHub) (map[string]bool, error) {
	landed := map[string]bool{}
	for rest := r.heads; len(rest) > 0; {
		n := min(r.Slots, len(rest))
		tips, passed := make([]git.Hash, n), make([]bool, n)
		var group errgroup.Group
		var mu sync.Mutex
		for i := range n {
			group.Go(func() error {
				tip, ok, err := h.passes(ctx, rest[:i+1])
				mu.Lock()
				defer mu.Unlock()
				tips[i], passed[i] = tip, ok
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		good := 0
		for good < n && passed[good] {
			landed[rest[good].name] = true
			good++
		}
		if good > 0 {
			if err := h.land(ctx, tips[good-1]); err != nil {
				return nil, err
			}
		}
		rest = rest[min(good+1, n):] // the first failure is gone
	}
	return landed, nil
}
