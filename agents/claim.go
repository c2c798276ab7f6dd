package agents

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"greenward/internal/git"
	"greenward/internal/proc"
)

// MaxTakeovers is how often a task changes hands before the harness hands it
// off as failed.
const MaxTakeovers = 3

// DefaultTTL is how long a claim lives without a heartbeat.
const DefaultTTL = 90 * time.Second

// ErrHeld says that somebody else holds the claim.
var ErrHeld = errors.New("claim is held")

// ErrClaimLost says that the claim ref no longer holds this claim: it was taken
// over, or removed after the task ended.
var ErrClaimLost = errors.New("claim is lost")

// Claims is the leases on tasks, one ref each in the hub. Every claim is a
// commit of its own on the empty tree, moved by compare-and-swap only, so of any
// number of racing holders one wins. Who is alive is judged by heartbeats that
// this value itself observed, on its own monotonic clock; no date in a commit
// counts. It is safe for concurrent use.
type Claims struct {
	Repo *git.Repo        // required
	Self proc.Identity    // the process that holds what is claimed through this value
	Now  func() time.Time // required; with a monotonic reading
	Rand io.Reader        // required; crypto/rand.Reader outside tests
	TTL  time.Duration    // 0: DefaultTTL
	// Own reports whether a holder's name is one that this program gives to its own
	// agents on this hub, life after life; nil: none is.
	Own func(holder string) bool

	mu   sync.Mutex
	seen map[git.Ref]sighting
}

type sighting struct {
	tip  git.Hash
	when time.Time
}

// Claim is one lease on a task.
type Claim struct {
	Task       string
	ID         string // 12 hexadecimal digits, drawn when it was claimed
	Generation int    // 1, and one more for each takeover
	Beat       int    // heartbeats so far
	Holder     string
	Owner      proc.Identity
	Commit     git.Hash // what the claim ref held when it was read or written
}

// Takeovers is how often the task has changed hands.
func (c Claim) Takeovers() int { return max(c.Generation-1, 0) }

// Acquire claims a task that nobody has claimed; else the error is ErrHeld.
func (c *Claims) Acquire(ctx context.Context, task, holder string) (Claim, error) {
	return c.put(ctx, "claim", Claim{Task: task, Generation: 1, Holder: holder, Owner: c.Self}, "")
}

// TakeOver replaces a claim, as it was read, by a new one of the next
// generation. ErrHeld: its holder stirred, or somebody was faster.
func (c *Claims) TakeOver(ctx context.Context, old Claim, holder string) (Claim, error) {
	next := Claim{Task: old.Task, Generation: max(old.Generation, 1) + 1, Holder: holder, Owner: c.Self}
	return c.put(ctx, "take over", next, old.Commit)
}

// Take claims a task that is free, or takes over a claim that has expired. One
// whose hand-off waits in the queue is held, whoever has died: the queue decides.
func (c *Claims) Take(ctx context.Context, task, holder string) (Claim, error) {
	old, err := c.Read(task)
	if errors.Is(err, git.ErrNotFound) {
		return c.Acquire(ctx, task, holder)
	}
	if err != nil {
		return Claim{}, err
	}
	if !c.Expired(old) {
		return Claim{}, fmt.Errorf("claim %s: %w by %q", task, ErrHeld, old.Holder)
	}
	entry, waiting, err := Waiting(c.Repo, old)
	if err != nil {
		return Claim{}, err
	}
	if waiting {
		return Claim{}, fmt.Errorf("claim %s: %w: its hand-off %s waits in the queue", task, ErrHeld, entry)
	}
	if c.Own != nil && c.Own(old.Holder) && old.ID != "" && !old.Owner.Alive() {
		return c.Resume(ctx, old, holder)
	}
	return c.TakeOver(ctx, old, holder)
}

// Resume continues a claim that an earlier life of this program held under its
// own names and whose process is provably dead. The claim stays what it is, so
// that a hand-off which that life submitted still counts, and nobody is blamed.
func (c *Claims) Resume(ctx context.Context, old Claim, holder string) (Claim, error) {
	next := old
	next.Holder, next.Owner, next.Beat = holder, c.Self, old.Beat+1
	got, err := c.write(ctx, "resume", next, old.Commit)
	if _, raced := errors.AsType[*git.RaceError](err); raced {
		return Claim{}, fmt.Errorf("resume %s: %w", old.Task, ErrHeld)
	}
	return got, err
}

// Renew is the heartbeat: a new commit with the same claim. ErrClaimLost ends
// the work on the task.
func (c *Claims) Renew(ctx context.Context, held Claim) (Claim, error) {
	next := held
	next.Beat++
	renewed, err := c.write(ctx, "renew", next, held.Commit)
	if _, raced := errors.AsType[*git.RaceError](err); raced {
		return Claim{}, fmt.Errorf("renew the claim on %s: %w", held.Task, ErrClaimLost)
	}
	return renewed, err
}

// Release removes the claim of a task that has ended. Someone else's newer claim
// stays: the error is then ErrClaimLost.
func (c *Claims) Release(ctx context.Context, held Claim) error {
	ref, err := git.ClaimRef(held.Task)
	if err != nil {
		return err
	}
	current, err := c.Read(held.Task)
	if errors.Is(err, git.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if current.ID != held.ID {
		return fmt.Errorf("release the claim on %s: %w", held.Task, ErrClaimLost)
	}
	err = c.Repo.Transact(ctx, "release "+held.Task, []git.RefUpdate{{Ref: ref, Old: current.Commit}})
	if _, raced := errors.AsType[*git.RaceError](err); raced {
		return fmt.Errorf("release the claim on %s: %w", held.Task, ErrClaimLost)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, ref)
	return err
}

// Prune removes claims whose task is no longer open on main, and gives how many went.
func (c *Claims) Prune(ctx context.Context, main git.Ref) (int, error) {
	all, err := c.List()
	if err != nil {
		return 0, err
	}
	removed := 0
	for _, one := range all {
		// Main is read after the claims were listed, for each: a task that is written
		// and claimed meanwhile is open by then.
		tip, err := c.Repo.Resolve(main)
		if err != nil {
			return removed, err
		}
		open, err := IsOpen(c.Repo, tip, one.Task)
		if err != nil {
			return removed, err
		}
		if open {
			continue
		}
		switch err := c.Release(ctx, one); {
		case errors.Is(err, ErrClaimLost): // it moved meanwhile: the next round looks again
		case err != nil:
			return removed, err
		default:
			removed++
		}
	}
	return removed, nil
}

func (c *Claims) put(ctx context.Context, verb string, next Claim, old git.Hash) (Claim, error) {
	id, err := c.draw()
	if err != nil {
		return Claim{}, err
	}
	next.ID = id
	got, err := c.write(ctx, verb, next, old)
	if _, raced := errors.AsType[*git.RaceError](err); raced {
		return Claim{}, fmt.Errorf("%s %s: %w", verb, next.Task, ErrHeld)
	}
	return got, err
}

func (c *Claims) draw() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b [6]byte
	if _, err := io.ReadFull(c.Rand, b[:]); err != nil {
		return "", fmt.Errorf("draw a claim: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

func (c *Claims) write(ctx context.Context, verb string, next Claim, old git.Hash) (Claim, error) {
	if err := CheckID(next.Task); err != nil {
		return Claim{}, err
	}
	ref, err := git.ClaimRef(next.Task)
	if err != nil {
		return Claim{}, err
	}
	m := git.Message{Subject: cut(verb+" "+next.Task, maxSubject), Trailers: git.Trailers{
		{Key: keyTask, Value: next.Task},
		{Key: keyClaim, Value: next.ID},
		{Key: "Generation", Value: strconv.Itoa(next.Generation)},
		{Key: "Beat", Value: strconv.Itoa(next.Beat)},
		{Key: "Holder", Value: cutDefault(git.OneLine(next.Holder), "unknown")},
		{Key: "Host", Value: cutDefault(git.OneLine(next.Owner.Host), "unknown")},
		{Key: "Pid", Value: strconv.Itoa(next.Owner.Pid)},
		{Key: "Start", Value: cutDefault(git.OneLine(next.Owner.Start), "unknown")},
	}}
	if err := m.Check(); err != nil {
		return Claim{}, fmt.Errorf("%s %s: %w", verb, next.Task, err)
	}
	by := harness(c.Now())
	next.Commit, err = c.Repo.WriteCommit(git.CommitInput{Tree: git.EmptyTree, Author: by, Committer: by, Message: m.String()})
	if err != nil {
		return Claim{}, fmt.Errorf("%s %s: %w", verb, next.Task, err)
	}
	if err := c.Repo.Transact(ctx, verb+" "+next.Task, []git.RefUpdate{{Ref: ref, New: next.Commit, Old: old}}); err != nil {
		return Claim{}, fmt.Errorf("%s %s: %w", verb, next.Task, err)
	}
	return next, nil
}

// Read is the claim on a task as its ref holds it; git.ErrNotFound when there is none.
func (c *Claims) Read(task string) (Claim, error) {
	ref, err := git.ClaimRef(task)
	if err != nil {
		return Claim{}, err
	}
	tip, err := c.Repo.Resolve(ref)
	if err != nil {
		return Claim{}, fmt.Errorf("read the claim on %s: %w", task, err)
	}
	return c.parse(task, tip)
}

// List is every claim in the hub, by task.
func (c *Claims) List() ([]Claim, error) {
	refs, err := c.Repo.Refs(git.ClaimPrefix)
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	var all []Claim
	for _, ref := range refs {
		task, ok := strings.CutSuffix(strings.TrimPrefix(string(ref.Ref), git.ClaimPrefix), "/_")
		if !ok {
			continue // not ours: claims end in the leaf
		}
		one, err := c.parse(task, ref.Hash)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// parse reads a claim commit. What somebody else put there is a claim without an
// id: it fences everything and expires like any other.
func (c *Claims) parse(task string, tip git.Hash) (Claim, error) {
	claim := Claim{Task: task, Generation: 1, Commit: tip}
	commit, err := c.Repo.Commit(tip)
	if errors.Is(err, git.ErrNotFound) {
		return claim, nil // no commit at all
	}
	if err != nil {
		return Claim{}, fmt.Errorf("read the claim on %s: %w", task, err)
	}
	trailers := commit.Trailers()
	get := func(key string) string { v, _ := trailers.Get(key); return v }
	if id := get(keyClaim); isClaimID(id) && get(keyTask) == task {
		claim.ID = id
	}
	claim.Holder = get("Holder")
	claim.Owner = proc.Identity{Pid: number(get("Pid"), 0), Start: get("Start"), Host: get("Host")}
	claim.Generation = number(get("Generation"), 1)
	claim.Beat = number(get("Beat"), 0)
	return claim, nil
}

// number is a small count written by us; anything else is the fallback.
func number(s string, fallback int) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1<<30 {
		return fallback
	}
	return n
}

// Expired reports whether a claim may be taken over: its holder is provably dead
// on this host, or its ref has not moved for the TTL since this value first saw
// it there. A first sight therefore never expires by time.
func (c *Claims) Expired(claim Claim) bool {
	ref, err := git.ClaimRef(claim.Task)
	if err != nil {
		return false // such a ref cannot be
	}
	now, ttl := c.Now(), c.TTL
	if ttl == 0 {
		ttl = DefaultTTL
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[git.Ref]sighting{}
	}
	last, known := c.seen[ref]
	if !known || last.tip != claim.Commit {
		last = sighting{claim.Commit, now}
		c.seen[ref] = last
	}
	if claim.Owner.Pid > 0 && !claim.Owner.Alive() {
		return true
	}
	return now.Sub(last.when) >= ttl
}
