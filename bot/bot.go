package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// ErrMoved is what Queue.Submit answers when the source no longer shows the head
// that was approved. Nothing was queued, and the bot looks again.
var ErrMoved = errors.New("the pull request has another head now")

// Change is an approved head of a pull request.
type Change struct {
	Name   string   // the queue branch's name, such as pr-12
	Head   git.Hash // the approved commit, never a later one
	Source git.Ref  // where the remote shows it: refs/pull/12/head
}

// Outcome is what the queue says of one entry.
type Outcome struct {
	State  string // "" (no such entry), waiting, building, landed, ejected or withdrawn
	Landed git.Hash
	Reason string
	Detail string
	With   string
	Paths  []string
	At     time.Time // of the decision
}

// Queue is where approved changes wait to land. Every call may be repeated.
type Queue interface {
	// Submit makes queue/<Name> point at Head, fetching it from Source first.
	// Submitting what is already there changes nothing. ErrMoved: Source shows another commit.
	Submit(ctx context.Context, c Change) error
	// Withdraw drops queue/<name> if it still waits at head.
	Withdraw(ctx context.Context, name string, head git.Hash) error
	// Outcome says what became of head under that name.
	Outcome(ctx context.Context, name string, head git.Hash) (Outcome, error)
}

// Request is one demand for a run that came from an issue.
type Request struct {
	Issue   int
	Trigger string // label-<event> or comment-<id>, fit for refs/greenward/seen/<issue>-<trigger>
	Goal    string // the issue's text: data, never instructions to a shell, a ref or a trailer
	By      string // login of who asked
}

// Runs pursues goals. Every call may be repeated.
type Runs interface {
	// Start begins the run, together with its ref under refs/greenward/seen/, in one
	// step: where that ref is, it does nothing.
	Start(ctx context.Context, r Request) error
	// Seen reports whether that ref is there.
	Seen(ctx context.Context, issue int, trigger string) (bool, error)
}

// Secret is text that prints as dots.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "••••"
}

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the secret in JSON and in logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal is the secret itself.
func (s Secret) Reveal() string { return string(s) }

// Config is what main tells the bot.
type Config struct {
	Owner, Name string // required: the repository
	Main        string // the branch that the queue lands on; default main

	API          string // root of the API; default https://api.github.com (Enterprise: https://HOST/api/v3)
	App          int64  // the App's id, with Key; or Token
	Installation int64  // 0: looked up
	Key          Secret // PEM text
	Token        Secret

	Webhook Secret // without it, webhooks are refused and the bot only polls
	MaxBody int64  // bytes of a webhook's body; default 25 MiB

	Label string        // the label that starts a run; default greenward
	Poll  time.Duration // a lost webhook costs this much; default 1 minute
	Pause time.Duration // between two writes; default 1 second

	Dir       string   // required: where memory and intents live
	Queue     Queue    // required
	Runs      Runs     // nil: issues are left alone
	Evidence  Evidence // nil: GitHub's own checks are not read
	Now       func() time.Time
	Transport http.RoundTripper // nil: the default one
}

// Check lists what is missing or contradicts itself.
func (c Config) Check() error {
	var faults []error
	add := func(bad bool, text string) {
		if bad {
			faults = append(faults, errors.New(text))
		}
	}
	add(c.Owner == "" || c.Name == "", "no repository: owner and name are needed")
	add((c.App == 0) != (c.Key == ""), "the App's id and its private key go together")
	add(c.Key == "" && c.Token == "", "no credentials: give the App's id and private key, or a token")
	add(c.Dir == "" || c.Queue == nil || c.Now == nil, "a state directory, a queue and a clock are needed")
	if u, err := url.Parse(cmp.Or(c.API, defaultAPI)); err != nil || u.Host == "" {
		faults = append(faults, fmt.Errorf("%q is not the address of an API", c.API))
	}
	return errors.Join(faults...)
}

// Bot serves one repository. Its methods are safe for concurrent use.
type Bot struct {
	cfg     Config
	effects *journal.Local
	wake    chan struct{}

	mu     sync.Mutex // held by a reconcile
	mem    *memory
	client *client
	read   map[int]reading
	asked  map[git.Hash]time.Time // when the checks of a commit were read last
	swept  time.Time

	statsMu sync.Mutex
	stats   Stats
	hints   map[int]bool      // pull requests that webhooks named
	named   map[git.Hash]bool // commits that webhooks named
	good    time.Time         // the end of the last reconcile without an error
}

// New opens the bot's memory. Nothing is asked of GitHub before Run or Reconcile.
func New(cfg Config) (*Bot, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("configure the bot: %w", err)
	}
	cfg.Main, cfg.Label = cmp.Or(cfg.Main, "main"), cmp.Or(cfg.Label, "greenward")
	cfg.API = strings.TrimRight(cmp.Or(cfg.API, defaultAPI), "/")
	cfg.MaxBody = cmp.Or(cfg.MaxBody, 25<<20)
	cfg.Poll, cfg.Pause = cmp.Or(cfg.Poll, time.Minute), cmp.Or(cfg.Pause, time.Second)
	if cfg.Transport == nil {
		cfg.Transport = http.DefaultTransport
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the bot's directory: %w", err)
	}
	mem, err := loadMemory(filepath.Join(cfg.Dir, "memory.json"))
	if err != nil {
		return nil, err
	}
	effects, err := journal.OpenLocal(filepath.Join(cfg.Dir, "effects.jsonl"))
	if err != nil {
		return nil, err
	}
	return &Bot{cfg: cfg, effects: effects, wake: make(chan struct{}, 1), mem: mem, read: map[int]reading{}}, nil
}

// Close ends the record of effects; Run must have returned.
func (b *Bot) Close() error { return b.effects.Close() }

// Wake asks for a reconcile soon; never blocks.
func (b *Bot) Wake() {
	select {
	case b.wake <- struct{}{}:
	default: // one is already asked for, and it will see this too
	}
}

// hint names pull requests that may have changed. More than some are left to the poll.
func (b *Bot) hint(numbers ...int) {
	b.statsMu.Lock()
	defer b.statsMu.Unlock()
	if b.hints == nil {
		b.hints = map[int]bool{}
	}
	for _, n := range numbers {
		if n > 0 && len(b.hints) < 1000 {
			b.hints[n] = true
		}
	}
}

// name says that the checks of a commit may have changed.
func (b *Bot) name(commits ...git.Hash) {
	b.statsMu.Lock()
	defer b.statsMu.Unlock()
	if b.named == nil {
		b.named = map[git.Hash]bool{}
	}
	for _, h := range commits {
		if !h.IsZero() && len(b.named) < 1000 {
			b.named[h] = true
		}
	}
}

func (b *Bot) takeHints() (pulls map[int]bool, commits map[git.Hash]bool) {
	b.statsMu.Lock()
	defer b.statsMu.Unlock()
	pulls, commits = b.hints, b.named
	b.hints, b.named = nil, nil
	return pulls, commits
}

// Run reconciles at start, when woken, and each poll period, until ctx ends.
func (b *Bot) Run(ctx context.Context) error {
	for try := 0; ; {
		gap := b.cfg.Pause
		if err := b.Reconcile(ctx); err == nil {
			try = 0
		} else if ctx.Err() == nil {
			try++
			gap = min(b.cfg.Poll, b.cfg.Pause<<min(try, 12))
			zerolog.Ctx(ctx).Warn().Err(err).Int("try", try).Dur("wait", gap).Msg("reconcile was put off")
		}
		if !pause(ctx, max(gap, b.cooling()), nil) || !pause(ctx, b.cfg.Poll, b.wake) {
			return nil
		}
	}
}

// pause waits for d or for a wake, and reports whether ctx still lives.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-wake:
	}
	return ctx.Err() == nil
}

// Stats counts since the start of the process.
type Stats struct {
	Deliveries map[string]int // by outcome: accepted, ignored, signature, malformed, large
	Reconciles int
	Failures   int // reconciles that ended with an error
	Limited    int // answers that were rate limits
	Calls      int // requests to the API
	Writes     int // of them, comments and check runs
	CoolUntil  time.Time
}

// Stats is a copy of the counters.
func (b *Bot) Stats() Stats {
	b.statsMu.Lock()
	defer b.statsMu.Unlock()
	s := b.stats
	s.Deliveries = maps.Clone(b.stats.Deliveries)
	return s
}

func (b *Bot) count(f func(*Stats)) {
	b.statsMu.Lock()
	defer b.statsMu.Unlock()
	if b.stats.Deliveries == nil {
		b.stats.Deliveries = map[string]int{}
	}
	f(&b.stats)
}

// Ready says why the bot is not at work, or nil.
func (b *Bot) Ready(context.Context) error {
	b.statsMu.Lock()
	defer b.statsMu.Unlock()
	now := b.cfg.Now()
	switch {
	case b.stats.CoolUntil.After(now):
		return fmt.Errorf("GitHub asked for a pause until %s", b.stats.CoolUntil.UTC().Format(time.RFC3339))
	case b.good.IsZero():
		return errors.New("GitHub was not read yet")
	case now.Sub(b.good) > 3*b.cfg.Poll+time.Minute:
		return fmt.Errorf("GitHub was last read at %s", b.good.UTC().Format(time.RFC3339))
	}
	return nil
}

// Token is a fresh credential for git over HTTP (user x-access-token). Ask at each
// use; it ends within the hour.
func (b *Bot) Token(ctx context.Context) (Secret, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, err := b.connect(ctx)
	if err != nil {
		return "", err
	}
	return c.token(ctx)
}
