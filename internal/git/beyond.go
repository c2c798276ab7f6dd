package git

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"greenward/internal/git/wire"

	"github.com/go-git/go-git/v5/plumbing"
)

// beyond is a mirror's quick way to a hub over http. Claims are moved and followed by
// it in this process; what it does not know how to do is done by git.
type beyond struct {
	client *wire.Client
	mover  *Mover // of the mirror's refs

	mu     sync.Mutex
	moving map[Ref]int  // claims that this process is moving in the hub
	moved  map[Ref]bool // claims that it was moving since the last Sync began
	shut   bool         // the hub answers git and not this
}

// restAfter is how long a git that waits for work is kept.
const restAfter = 5 * time.Second

// quick is the quick way to a hub; nil: there is none. Where the user's own settings
// say how the network is reached, git goes by them.
func (r *Repo) quick(url string) *beyond {
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return nil
	}
	if len(r.host.Only("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "GIT_SSL_CAINFO")) > 0 {
		return nil
	}
	r.beyondMu.Lock()
	defer r.beyondMu.Unlock()
	if r.past == nil || r.past.client.URL != url {
		header := http.Header{}
		if set := credential(r, url); len(set) > 0 {
			header.Set("Authorization", strings.TrimPrefix(set[len(set)-1], "GIT_CONFIG_VALUE_0=Authorization: "))
		}
		if _, err := r.WriteTree(nil); err != nil { // what every claim names
			return nil
		}
		m := r.Mover()
		m.Volatile, m.Rest = true, restAfter // a mirror that is lost is made anew
		r.past = &beyond{
			mover: m, moving: map[Ref]int{}, moved: map[Ref]bool{},
			client: &wire.Client{URL: url, Header: header, HTTP: &http.Client{
				Transport:     &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: restAfter},
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}},
		}
	}
	if r.past.open() {
		return r.past
	}
	return nil
}

func (b *beyond) open() bool { b.mu.Lock(); defer b.mu.Unlock(); return !b.shut }

// foreign closes the quick way where git has just come through and this has not.
func (b *beyond) foreign(err error) {
	if errors.Is(err, wire.ErrForeign) {
		b.mu.Lock()
		b.shut = true
		b.mu.Unlock()
	}
}

// claimQuick moves one claim in the hub and in the mirror. done false: git has to do
// it, and looks first whether it is done already.
func (r *Repo) claimQuick(ctx context.Context, b *beyond, u RefUpdate) (done bool, err error) {
	m := wire.Move{Ref: string(u.Ref), Old: u.Old.wire(), New: u.New.wire()}
	if !u.New.IsZero() {
		kind, raw, err := r.object(plumbing.AnyObject, u.New)
		if err != nil || kind != plumbing.CommitObject || !wire.Alone(raw) {
			return false, err
		}
		m.Raw = raw
	}
	b.mark(u.Ref, 1)
	defer b.mark(u.Ref, -1)
	why, err := b.client.Push(ctx, m)
	if err != nil {
		return false, err
	}
	if is, lost := wire.Is(why); lost {
		now := Hash(is)
		if is == wire.Zero {
			now = ""
		}
		if now == u.New { // it was asked twice, and the first time the answer was lost
			return true, b.follow(ctx, r, u)
		}
		return true, &RaceError{Ref: u.Ref, Want: u.Old, Is: now}
	}
	if why != "" {
		return false, nil // git asks again and tells it in its words
	}
	return true, b.follow(ctx, r, u)
}

func (b *beyond) mark(ref Ref, by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moved[ref] = true
	if b.moving[ref] += by; b.moving[ref] == 0 {
		delete(b.moving, ref)
	}
}

// follow sets a claim of the mirror to what the hub was just given.
func (b *beyond) follow(ctx context.Context, r *Repo, u RefUpdate) error {
	old, err := r.Tip(u.Ref)
	if err != nil || old == u.New {
		return err
	}
	return unlessRaced(b.mover.Transact(ctx, []RefUpdate{{Ref: u.Ref, New: u.New, Old: old}}))
}

// unlessRaced leaves a lost race in a mirror to the next Sync.
func unlessRaced(err error) error {
	if _, raced := errors.AsType[*RaceError](err); raced {
		return nil
	}
	return err
}

// syncQuick takes the claims that the hub has now, and tells whether anything else
// of it differs from the mirror.
func (r *Repo) syncQuick(ctx context.Context, b *beyond) (differs bool, err error) {
	b.mu.Lock()
	clear(b.moved)
	for ref := range b.moving {
		b.moved[ref] = true
	}
	b.mu.Unlock()
	list, err := b.client.List(ctx, "refs/heads/", "refs/greenward/", "refs/notes/")
	if err != nil {
		return false, err
	}
	here := map[Ref]Hash{}
	for _, prefix := range []string{"refs/heads/", "refs/greenward/", "refs/notes/"} {
		refs, err := r.Refs(prefix)
		if err != nil {
			return false, err
		}
		for _, v := range refs {
			here[v.Ref] = v.Hash
		}
	}
	var moves []RefUpdate
	var want []string
	for _, there := range list {
		ref, now := Ref(there.Name), Hash(there.Hash)
		old := here[ref]
		delete(here, ref)
		if old == now {
			continue
		}
		if !strings.HasPrefix(there.Name, ClaimPrefix) {
			differs = true
			continue
		}
		if _, err := ParseRef(there.Name); err != nil {
			return true, err
		}
		moves, want = append(moves, RefUpdate{Ref: ref, New: now, Old: old}), append(want, there.Hash)
	}
	for ref, old := range here {
		if !strings.HasPrefix(string(ref), ClaimPrefix) {
			differs = true
			continue
		}
		moves = append(moves, RefUpdate{Ref: ref, Old: old})
	}
	return differs, r.takeClaims(ctx, b, moves, want)
}

// takeClaims stores the commits of claims and moves them in the mirror, but for those
// that this process itself was at meanwhile: it knows better.
func (r *Repo) takeClaims(ctx context.Context, b *beyond, moves []RefUpdate, want []string) error {
	for len(want) > 0 {
		part := want[:min(len(want), wire.MaxCommits)]
		commits, err := b.client.Fetch(ctx, part)
		if err != nil {
			return err
		}
		stage := r.Stage()
		stage.Volatile = true
		for _, h := range part {
			if _, err := stage.write(plumbing.CommitObject, commits[h]); err != nil {
				return err
			}
		}
		if err := stage.Flush(ctx); err != nil {
			return err
		}
		want = want[len(part):]
	}
	b.mu.Lock()
	var mine []RefUpdate
	for _, u := range moves {
		if !b.moved[u.Ref] {
			mine = append(mine, u)
		}
	}
	b.mu.Unlock()
	return unlessRaced(b.mover.Transact(ctx, mine))
}
