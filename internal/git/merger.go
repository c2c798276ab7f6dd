package git

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Merger merges commits, one after the other, as git does: where a splice of
// trees is the same, in process; else by one long-lived git merge-tree; and by a
// git process of its own where that is not to be had. What it writes is collected
// by its Stage. It is safe for concurrent use. Close must be called in the end.
type Merger struct {
	stage *Stage
	mu    sync.Mutex
	s     *session // nil: none runs
	tries int      // sessions that ended badly, one after the other
	Slow  bool     // never splice: for comparisons
	done  Merges
}

// Merges counts how merges were made.
type Merges struct {
	Spliced int `json:"spliced"` // in process
	Session int `json:"session"` // by the long-lived git
	Single  int `json:"single"`  // by a process of its own
}

// Merger is a merger whose results the stage collects.
func (s *Stage) Merger() *Merger { return &Merger{stage: s} }

// Merges is how the merges so far were made.
func (m *Merger) Merges() Merges {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done
}

// MergeTree is Repo.MergeTree; of a merge that conflicts it gives the paths and
// no tree.
func (m *Merger) MergeTree(ctx context.Context, in MergeInput) (Merged, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return Merged{}, context.Cause(ctx)
	}
	if !in.Base.IsZero() && !m.Slow {
		tree, err := m.splice(in)
		if err == nil {
			m.done.Spliced++
			return Merged{Tree: tree}, nil
		}
		if !errors.Is(err, errSlow) {
			return Merged{}, fmt.Errorf("merge %s into %s: %w", in.Theirs.Short(), in.Ours.Short(), err)
		}
	}
	if m.tries < maxTries {
		out, err := m.ask(ctx, in)
		if err == nil {
			m.tries = 0
			m.done.Session++
			return out, nil
		}
		m.tries++
		if errors.Is(err, errSilent) {
			m.tries = maxTries
		}
		ended := m.end()
		if ctx.Err() != nil {
			return Merged{}, errors.Join(context.Cause(ctx), ended)
		}
	}
	// Git says on its own what the session could not: all that it needs is put
	// where it looks.
	m.done.Single++
	order, list := m.stage.s.all(0)
	for i, h := range order {
		if err := m.stage.storeLoose(h, list[i], false); err != nil {
			return Merged{}, err
		}
	}
	out, err := m.stage.of.MergeTree(ctx, in)
	if err != nil && ctx.Err() == nil {
		// Git gives up where a torn file has the name of what it merged.
		n, tornErr := m.stage.of.putTornAside()
		if n == 0 || tornErr != nil {
			return out, errors.Join(err, tornErr)
		}
		out, err = m.stage.of.MergeTree(ctx, in)
	}
	if len(out.Conflicts) > 0 {
		out.Tree = ""
	}
	return out, err
}

// errSilent says that git cannot be spoken to while it runs.
var errSilent = errors.New("git merge-tree --stdin does not answer")

// maxTries is how many sessions in a row may end badly before there are no more.
const maxTries = 3

func (m *Merger) splice(in MergeInput) (Hash, error) {
	var trees [3]Hash
	for i, h := range []Hash{in.Base, in.Ours, in.Theirs} {
		var err error
		if trees[i], err = m.stage.TreeOf(h); err != nil {
			return "", err
		}
	}
	return m.stage.splice(trees[0], trees[1], trees[2])
}

// Close ends the long-lived git.
func (m *Merger) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.end()
}

func (m *Merger) end() error {
	if m.s == nil {
		return nil
	}
	s := m.s
	m.s = nil
	return s.close()
}

// ask merges through the session.
func (m *Merger) ask(ctx context.Context, in MergeInput) (Merged, error) {
	if m.s != nil && m.s.objects > maxScratch {
		if err := m.end(); err != nil {
			return Merged{}, err
		}
	}
	if m.s == nil {
		var err error
		if m.s, err = m.stage.session(ctx, in.Theirs); err != nil {
			return Merged{}, err
		}
	}
	s := m.s
	if err := s.spill(m.stage); err != nil {
		return Merged{}, err
	}
	ours, theirs, err := s.sides(m.stage, in)
	if err != nil {
		return Merged{}, err
	}
	var trees [2]Hash
	for i, h := range []Hash{in.Ours, in.Theirs} {
		if trees[i], err = m.stage.TreeOf(h); err != nil {
			return Merged{}, err
		}
	}
	for range maxTorn {
		out, err := s.merge(ctx, ours, theirs)
		if err != nil || len(out.Conflicts) > 0 {
			return out, err
		}
		err = s.collect(m.stage, Entry{Mode: ModeTree, Hash: out.Tree}, trees[:])
		torn, is := errors.AsType[*TornError](err)
		if !is {
			return out, err
		}
		// Git takes the name for the object and writes none: without the file it will.
		if err := m.stage.of.PutAside(torn.Hash); err != nil {
			return Merged{}, err
		}
	}
	return Merged{}, fmt.Errorf("merge %s: more than %d of its objects lay torn in the repository: run git fsck there", in.Theirs.Short(), maxTorn)
}

// maxTorn bounds how many torn objects one merge puts aside.
const maxTorn = 1_000
