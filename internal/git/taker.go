package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"greenward/internal/git/wire"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// Taker moves claims of a hub for many who ask at once: what waits goes together, so
// that the disk is waited for once for all of it. Each claim is moved or not by
// itself. It is safe for concurrent use. Close must be called in the end.
type Taker struct {
	repo   *Repo
	movers [takers]*Mover
	turn   chan struct{}

	mu      sync.Mutex
	waiting []*taking
}

// takers is how many gits move refs side by side. Each waits for the disk after each
// ref; eight at once are done in a quarter of the time.
const takers = 8

type taking struct {
	moves []wire.Move
	stays map[string]string
	done  chan struct{}
}

// Taker is a taker of the repository's claims.
func (r *Repo) Taker() *Taker {
	t := &Taker{repo: r, turn: make(chan struct{}, 1)}
	for i := range t.movers {
		t.movers[i] = r.Mover()
		t.movers[i].Rest = restAfter
	}
	return t
}

// Take moves claims and gives why those stay that do. All of it is on the disk when
// it returns. The commits must stand alone (wire.Alone).
func (t *Taker) Take(ctx context.Context, moves []wire.Move) map[string]string {
	own := &taking{moves: moves, stays: map[string]string{}, done: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, own)
	t.mu.Unlock()
	select {
	case <-own.done:
		return own.stays
	case t.turn <- struct{}{}:
	}
	defer func() { <-t.turn }()
	t.mu.Lock()
	batch := t.waiting
	t.waiting = nil
	t.mu.Unlock()
	t.take(context.WithoutCancel(ctx), batch)
	return own.stays // it was taken now, or by the one before
}

// take moves what a batch asks, and tells each who asked.
func (t *Taker) take(ctx context.Context, batch []*taking) {
	var plan []RefUpdate
	var objects [][]byte
	to, by := map[Ref]Hash{}, map[Ref]*taking{}
	for _, one := range batch {
		for _, m := range one.moves {
			u := RefUpdate{Ref: Ref(m.Ref), Old: fromWire(m.Old), New: fromWire(m.New)}
			is, err := t.repo.Tip(u.Ref)
			if planned, twice := to[u.Ref]; twice {
				is = planned // whoever comes second has lost
			}
			switch {
			case err != nil:
				one.stays[m.Ref] = OneLine(err.Error())
			case is != u.Old:
				one.stays[m.Ref] = wire.Moved(is.wire())
			case u.New != u.Old:
				to[u.Ref], by[u.Ref] = u.New, one
				plan = append(plan, u)
				if !u.New.IsZero() {
					objects = append(objects, m.Raw)
				}
			}
		}
	}
	for ref, why := range t.move(ctx, plan, objects) {
		by[ref].stays[string(ref)] = why
	}
	for _, one := range batch {
		close(one.done)
	}
}

func fromWire(h string) Hash {
	if h == wire.Zero {
		return ""
	}
	return Hash(h)
}

// store writes commits, and gives what waits until they are on the disk.
func (t *Taker) store(objects [][]byte) (settle func() error, err error) {
	if _, err := t.repo.WriteTree(nil); err != nil { // what each of them names
		return nil, err
	}
	var names []string
	for _, raw := range objects {
		h := nameOf(plumbing.CommitObject, raw)
		if err := (&Stage{Repo: t.repo}).storeLoose(h, object{kind: plumbing.CommitObject, data: raw}, false); err != nil {
			return nil, err
		}
		names = append(names, filepath.Join(t.repo.dir, "objects", string(h[:2]), string(h[2:])))
	}
	return func() error {
		var all errgroup.Group
		all.SetLimit(packFrom)
		for _, name := range names {
			all.Go(func() error {
				if err := t.repo.files().SyncFile(name); !errors.Is(err, fs.ErrNotExist) { // packed since
					return err
				}
				return nil
			})
		}
		return all.Wait()
	}, nil
}

// move stores commits and moves refs, and gives why those stay that do. The waits for
// the disk of both are one: who asked is answered after it. A machine that loses power
// meanwhile may have a claim whose commit is torn, which nobody was told of.
func (t *Taker) move(ctx context.Context, plan []RefUpdate, objects [][]byte) map[Ref]string {
	stays := map[Ref]string{}
	settle, err := t.store(objects)
	if err != nil {
		for _, u := range plan {
			stays[u.Ref] = OneLine(err.Error())
		}
		return stays
	}
	part := (len(plan) + takers - 1) / takers
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, m := range t.movers {
		mine := plan[min(i*part, len(plan)):min((i+1)*part, len(plan))]
		all.Go(func() {
			if m.Transact(ctx, mine) == nil {
				return
			}
			for _, u := range mine { // another process moved one of them, so that none was: each by itself
				err := m.Transact(ctx, []RefUpdate{u})
				race, raced := errors.AsType[*RaceError](err)
				if err == nil || raced && race.Is == u.New {
					continue
				}
				why := ""
				if raced {
					why = wire.Moved(race.Is.wire())
				} else {
					why = OneLine(err.Error())
				}
				mu.Lock()
				stays[u.Ref] = why
				mu.Unlock()
			}
		})
	}
	err = settle()
	all.Wait()
	if err != nil {
		zerolog.Ctx(ctx).Error().Err(err).Msg("claims may not be on the disk")
	}
	return stays
}

// Lone is a commit that stands alone, as it is stored; ErrNotFound: there is none of
// that name.
func (r *Repo) Lone(h Hash) ([]byte, error) {
	_, raw, err := r.object(plumbing.CommitObject, h)
	if err == nil && !wire.Alone(raw) {
		err = fmt.Errorf("commit %s does not stand alone: %w", h.Short(), ErrNotFound)
	}
	return raw, err
}

// Close ends the gits that move refs.
func (t *Taker) Close() error {
	var all []error
	for _, m := range t.movers {
		all = append(all, m.Close())
	}
	return errors.Join(all...)
}
