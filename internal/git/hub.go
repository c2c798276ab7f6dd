package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"greenward/internal/proc"
)

// remoteTime bounds one exchange with another machine.
const remoteTime = 5 * time.Minute

// trackPrefix is where the hub keeps what it last saw upstream.
const trackPrefix = "refs/greenward/upstream/"

// fetchedPrefix keeps the objects of upstream's queue branches.
const fetchedPrefix = trackPrefix + "fetched/queue/"

// ErrNoCommits says that there is nothing yet to land on.
var ErrNoCommits = errors.New("no commits yet")

// Hub is the bare repository where landing happens.
//
// In a clone it lies inside the clone's git directory and is kept in step with
// the clone's remote or, when it has none, with the clone itself. A bare
// repository is its own hub and follows its own remote, if it has one.
type Hub struct {
	*Repo
	clone    *Repo  // nil when the repository given was bare
	upstream string // URL or path that the hub is kept in step with; empty: none
	local    bool   // the upstream is the clone itself
}

// HubInput says which repository a person means.
type HubInput struct {
	Dir    string // required: a bare repository, or a place in a clone
	Remote string // name of the remote to follow
	Host   proc.Host
	Key    Credential // to enter a remote over HTTP with; nil: as the user's own git does
	// Patience is the most that one exchange with the remote may take; 0: 5 minutes.
	Patience time.Duration
}

// OpenHub finds the hub of a repository, and makes it when a clone has none.
// Nothing of the clone is changed but the remote named greenward.
func OpenHub(ctx context.Context, in HubInput) (*Hub, error) {
	repo, err := Open(ctx, in.Dir, in.Host)
	if err != nil {
		return nil, err
	}
	bare, err := repo.IsBare(ctx)
	if err != nil {
		return nil, err
	}
	h := &Hub{Repo: repo}
	if bare {
		h.upstream, err = repo.remoteURL(ctx, in.Remote, repo.dir)
	} else {
		h, err = hubOfClone(ctx, repo, in)
	}
	if err != nil {
		return nil, err
	}
	h.door, h.patience = newDoor(h.upstream, in.Key), in.Patience
	return h, nil
}

func hubOfClone(ctx context.Context, repo *Repo, in HubInput) (*Hub, error) {
	common, err := repo.git(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return nil, err
	}
	clone := &Repo{dir: strings.TrimSuffix(string(common), "\n"), host: in.Host, patience: in.Patience}
	if clone.IsShallow() {
		return nil, fmt.Errorf("open %q: %w: a shallow clone cannot be landed on; run git fetch --unshallow", in.Dir, ErrUnsupported)
	}
	bare, err := openMade(ctx, filepath.Join(clone.dir, hubName), in.Host)
	if err != nil {
		return nil, err
	}
	h := &Hub{Repo: bare, clone: clone}
	if h.upstream, err = clone.remoteURL(ctx, in.Remote, filepath.Dir(clone.dir)); err != nil {
		return nil, err
	}
	if h.upstream == "" {
		h.upstream, h.local = clone.dir, true
	}
	return h, h.nameInClone(ctx)
}

// remoteURL is the URL of a remote, made absolute against dir; empty when there
// is no such remote.
func (r *Repo) remoteURL(ctx context.Context, name, dir string) (string, error) {
	if name == "" {
		return "", nil
	}
	if strings.HasPrefix(name, "-") || strings.ContainsAny(name, "\n\x00") {
		return "", fmt.Errorf("remote %q: not a remote's name", name)
	}
	out, err := r.git(ctx, "config", "--get", "remote."+name+".url")
	if said, ok := errors.AsType[*CommandError](err); ok && said.Code == 1 {
		return "", nil
	}
	url := strings.TrimSuffix(string(out), "\n")
	if strings.HasPrefix(url, "./") || strings.HasPrefix(url, "../") {
		url = filepath.Join(dir, url)
	}
	return url, err
}

// State is the directory for what need not survive: workspaces, transcripts,
// locks, and the hub's key.
func (h *Hub) State() string { return filepath.Join(h.dir, "greenward") }

// Key is the hub's signing key; it is made when there is none.
func (h *Hub) Key() (Signer, error) { return LoadKey(filepath.Join(h.State(), "key")) }

// Clone is the clone that the hub belongs to; nil when the hub stands alone.
func (h *Hub) Clone() *Repo { return h.clone }

// HasRemote reports whether the hub follows another repository than its own clone.
func (h *Hub) HasRemote() bool { return h.upstream != "" && !h.local }

// Upstream names what the hub is kept in step with; empty when nothing.
func (h *Hub) Upstream() string { return h.upstream }

// Track is where the hub keeps what it last saw of an upstream ref.
func Track(ref Ref) Ref { return Ref(trackPrefix + strings.TrimPrefix(string(ref), "refs/")) }

// Fetch takes from upstream: branches into Track refs, queue branches that moved, and the
// public refs under refs/greenward where the hub has none yet. The first main
// becomes the hub's. Without an upstream it does nothing.
func (h *Hub) Fetch(ctx context.Context, main, green Ref) error {
	if h.upstream == "" {
		return nil
	}
	specs := []string{
		"+" + string(main) + ":" + string(Track(main)),
		"+" + string(green) + ":" + string(Track(green)),
		"+" + QueuePrefix + "*:" + fetchedPrefix + "*",
		"+refs/greenward/log/*:" + string(Track("refs/greenward/log")) + "/*",
		"+" + string(Control) + ":" + string(Track(Control)),
		"+" + string(Notes) + ":" + string(Track(Notes)),
		"+" + greenTagPrefix + "*:" + string(Track(greenTagPrefix)) + "*",
		"+" + PlannerPrefix + "*:" + string(Track(PlannerPrefix)) + "*",
	}
	there, err := h.listUpstream(ctx)
	if err != nil {
		return err
	}
	if _, ok := there[main]; !ok && len(there) == 0 {
		return fmt.Errorf("fetch from %q: %w: commit something first", h.upstream, ErrNoCommits)
	}
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", h.upstream}
	for _, spec := range specs {
		from, _, _ := strings.Cut(strings.TrimPrefix(spec, "+"), ":")
		if _, ok := there[Ref(from)]; ok || strings.HasSuffix(from, "*") {
			args = append(args, spec)
		}
	}
	tags, err := h.newTags(there)
	if err != nil {
		return err
	}
	if err := h.fetch(ctx, append(args, tags...)); err != nil {
		return err
	}
	if err := h.takeQueue(ctx, there); err != nil {
		return err
	}
	return h.adopt(ctx, main, green)
}

// adopt starts hub refs that do not exist from what upstream has. Where another process
// of the hub does it at that moment, what is there then stands.
func (h *Hub) adopt(ctx context.Context, refs ...Ref) error {
	for try := 1; ; try++ {
		err := h.adoptOnce(ctx, refs)
		if _, raced := errors.AsType[*RaceError](err); !raced || try == fetchTries {
			return err
		}
	}
}

func (h *Hub) adoptOnce(ctx context.Context, refs []Ref) error {
	var updates []RefUpdate
	for _, ref := range append(refs, QueueLog, GreenLog, Control, Notes) {
		here, err := h.Tip(ref)
		if err != nil {
			return err
		}
		there, err := h.Tip(Track(ref))
		if err != nil {
			return err
		}
		if here.IsZero() && !there.IsZero() {
			updates = append(updates, RefUpdate{Ref: ref, New: there})
		}
	}
	return h.Transact(ctx, "start from upstream", updates)
}

// listUpstream asks for refs by name or pattern; none: all that concern the hub.
func (h *Hub) listUpstream(ctx context.Context, which ...string) (map[Ref]Hash, error) {
	if len(which) == 0 {
		which = []string{"refs/heads/*", "refs/greenward/*", "refs/notes/greenward", "refs/tags/green/*"}
	}
	out, err := h.command(ctx, call{args: append([]string{"ls-remote", "--quiet", h.upstream}, which...), remote: true})
	if err != nil {
		return nil, fmt.Errorf("ask %q for its refs: %w", h.upstream, err)
	}
	refs := map[Ref]Hash{}
	for line := range strings.Lines(string(out)) {
		hash, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		refs[Ref(ref)] = Hash(hash)
	}
	return refs, nil
}

// PushError is a push that upstream refused; Said is its words.
type PushError struct {
	Refs []Ref
	Said string
}

// Error quotes upstream.
func (e *PushError) Error() string {
	return fmt.Sprintf("push of %v refused: %s", e.Refs, strings.TrimSpace(e.Said))
}

// Offered is what stands on a branch of the place that Offer writes to; zero: nothing.
func (h *Hub) Offered(ctx context.Context, ref Ref) (Hash, error) {
	if !h.HasRemote() {
		return h.Tip(ref)
	}
	there, err := h.listUpstream(ctx, string(ref))
	return there[ref], err
}

// Offer puts a commit of the clone (or of the hub itself) on a branch of the
// remote or, without one, of the hub, if old stands there still. It gives the place
// that was written to.
func (h *Hub) Offer(ctx context.Context, head Hash, ref Ref, old Hash) (string, error) {
	if h.clone == nil && h.upstream == "" {
		if old == head {
			return h.dir, nil
		}
		return h.dir, h.Transact(ctx, "submit", []RefUpdate{{Ref: ref, New: head, Old: old}})
	}
	from, to := h.Repo, h.dir
	if h.clone != nil {
		from = h.clone
	}
	if h.HasRemote() {
		to = h.upstream
	}
	lease := fmt.Sprintf("--force-with-lease=%s:%s", ref, old)
	_, err := from.command(ctx, call{args: []string{"push", "--quiet", "--no-verify", lease, to, string(head) + ":" + string(ref)}, remote: h.HasRemote()})
	if said, ok := errors.AsType[*CommandError](err); ok && !said.Timed {
		return to, &PushError{[]Ref{ref}, said.Stderr}
	}
	return to, err
}

// checkedOut lists the branches of the clone that a working tree shows.
func (h *Hub) checkedOut(ctx context.Context) ([]Ref, error) {
	out, err := h.clone.git(ctx, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, fmt.Errorf("list working trees: %w", err)
	}
	var refs []Ref
	for line := range strings.SplitSeq(string(out), "\x00") {
		if ref, ok := strings.CutPrefix(line, "branch "); ok {
			refs = append(refs, Ref(ref))
		}
	}
	return refs, nil
}

// ClearLocks removes lock files that a killed git left on refs of the hub: those
// older than age, which no ref transaction lasts. It names what it removed.
func (h *Hub) ClearLocks(refs []Ref, age time.Duration, now time.Time) ([]string, error) {
	var removed []string
	for _, ref := range append(refs, "packed-refs") {
		name := filepath.Join(h.dir, filepath.FromSlash(string(ref))+".lock")
		info, err := os.Stat(name)
		if err != nil || now.Sub(info.ModTime()) < age {
			continue
		}
		if err := os.Remove(name); err != nil {
			return removed, fmt.Errorf("remove stale lock: %w", err)
		}
		removed = append(removed, name)
	}
	return removed, nil
}

// Catch moves a ref of the hub forward to what upstream had at the last Fetch,
// where that contains it.
func (h *Hub) Catch(ctx context.Context, ref Ref) error {
	there, err := h.Tip(Track(ref))
	if err != nil || there.IsZero() {
		return err
	}
	here, err := h.Tip(ref)
	if err != nil || here == there {
		return err
	}
	if !here.IsZero() {
		if behind, err := h.IsAncestor(ctx, here, there); err != nil || !behind {
			return err
		}
	}
	err = h.Transact(ctx, "catch up with upstream", []RefUpdate{{Ref: ref, New: there, Old: here}})
	if _, raced := errors.AsType[*RaceError](err); raced {
		return nil // whoever moved it meanwhile knows more
	}
	return err
}

// Import copies the history of a commit from another repository on this machine,
// keeps it under ref, and gives the commit.
func (r *Repo) Import(ctx context.Context, from *Repo, commit Hash, ref Ref) error {
	// The name is made for the moment: upload-pack serves what refs reach.
	if _, err := r.command(ctx, call{args: []string{
		"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--upload-pack=git -c uploadpack.allowAnySHA1InWant=true -c safe.directory=* upload-pack", from.dir, "+" + string(commit) + ":" + string(ref),
	}, timeout: remoteTime}); err != nil {
		return fmt.Errorf("import %s from %q: %w", commit.Short(), from.dir, err)
	}
	return nil
}

// FindHub opens the hub of a place where that has one already, else the repository
// itself. It makes nothing and asks no network.
func FindHub(ctx context.Context, dir string, host proc.Host) (*Repo, error) {
	repo, err := Open(ctx, dir, host)
	if err != nil {
		return nil, err
	}
	common, err := repo.git(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return nil, err
	}
	hub := filepath.Join(strings.TrimSuffix(string(common), "\n"), hubName)
	if _, err := os.Stat(filepath.Join(hub, "refs", "heads")); err != nil {
		return repo, nil //nolint:nilerr // there is none
	}
	return Open(ctx, hub, host)
}
