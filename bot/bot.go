package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/go-github/v66/github"
	"github.com/rs/zerolog"

	"greenward/bot/bors"
	"greenward/bot/command"
	"greenward/bot/forge"
	"greenward/bot/herald"
	"greenward/bot/limit"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// Config is what main tells the bot.
type Config struct {
	Owner, Name string // required: the repository
	Main        string // the branch that the queue lands on; default main

	API          string // root of the API; default https://api.github.com (Enterprise: https://HOST/api/v3)
	App          int64  // the App's id, with Key; or Token
	Installation int64  // 0: looked up
	Key          Secret // PEM text
	Token        Secret

	Label string        // the label that starts a run; default greenward
	Poll  time.Duration // a lost webhook costs this much; default 1 minute
	Pause time.Duration // between two writes; default 1 second

	Dir       string         // required: where memory and intents live
	Queue     Queue          // required
	Orders    Orders         // nil: nobody steers from a comment
	Trials    Trials         // nil: nothing is tried
	Limits    *limit.Limiter // nil: one of its own; repositories of one installation share one
	Clashes   Clashes        // nil: conflicts are found when it is its turn
	Runs      Runs           // nil: issues are left alone
	Evidence  Evidence       // nil: GitHub's own checks are not read
	Greens    Greens         // nil: nothing is said of green
	Now       func() time.Time
	Transport http.RoundTripper // nil: the default one
}

// Check lists what is missing or contradicts itself.
func (c Config) Check() error {
	err := c.access()
	if c.Dir == "" || c.Queue == nil || c.Now == nil {
		err = errors.Join(err, errors.New("a state directory, a queue and a clock are needed"))
	}
	return err
}

// access lists what is missing to reach GitHub.
func (c Config) access() error {
	var faults []error
	add := func(bad bool, text string) {
		if bad {
			faults = append(faults, errors.New(text))
		}
	}
	add(c.Owner == "" || c.Name == "", "no repository: owner and name are needed")
	add((c.App == 0) != (c.Key == ""), "the App's id and its private key go together")
	add(c.Key == "" && c.Token == "", "no credentials: give the App's id and private key, or a token")
	if u, err := url.Parse(cmp.Or(c.API, defaultAPI)); err != nil || u.Host == "" {
		faults = append(faults, fmt.Errorf("%q is not the address of an API", c.API))
	}
	return errors.Join(faults...)
}

func (c Config) withDefaults() Config {
	c.Main, c.Label = cmp.Or(c.Main, "main"), cmp.Or(c.Label, "greenward")
	c.API = strings.TrimRight(cmp.Or(c.API, defaultAPI), "/")
	c.Poll, c.Pause = cmp.Or(c.Poll, time.Minute), cmp.Or(c.Pause, time.Second)
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	return c
}

// Bot serves one repository. Its methods are safe for concurrent use.
type Bot struct {
	cfg     Config
	effects *journal.Local
	wake    chan struct{}
	moved   chan struct{}

	mu     sync.Mutex // held by a reconcile
	mem    *memory
	client *client
	read   map[int]reading
	asked  map[git.Hash]time.Time // when the checks of a commit were read last
	swept  time.Time
	listed time.Time     // the issues
	waits  time.Duration // until the next report may be written; 0: none is left
	rules  forge.Book    // of base branches
	carry  bors.Config   // main's bors.toml, as of this reconcile
	stays  bool          // approvals outlive a push of the same content
	checks bool          // main's policy checks what lands, or says that nothing needs it
	green  herald.Green  // as of this pass

	statsMu sync.Mutex
	stats   Stats
	hints   hints

	repository int64     // its id, once a pull request was seen
	good       time.Time // the end of the last reconcile without an error
}

// New opens the bot's memory. Nothing is asked of GitHub before Run or Reconcile.
func New(cfg Config) (*Bot, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("configure the bot: %w", err)
	}
	cfg = cfg.withDefaults()
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
	if err := bind(mem, effects, cfg.Now()); err != nil {
		return nil, errors.Join(err, effects.Close())
	}
	if cfg.Limits == nil {
		if cfg.Limits, err = limit.Open(filepath.Join(cfg.Dir, "limits.json"), limit.Rates{Gap: cfg.Pause}, cfg.Now); err != nil {
			return nil, errors.Join(err, effects.Close())
		}
	}
	return &Bot{cfg: cfg, effects: effects, wake: make(chan struct{}, 1), moved: make(chan struct{}, 1), mem: mem, read: map[int]reading{}, rules: forge.Book{Period: cfg.Poll, App: cfg.App}}, nil
}

// bind gives a record of effects a name, once, and makes the memory go with it.
func bind(mem *memory, effects *journal.Local, now time.Time) error {
	name, ok := effects.Find("record")
	if !ok {
		if err := effects.Outcome("record", now.UnixNano()); err != nil {
			return err
		}
		name, _ = effects.Find("record")
	}
	mem.goesWith(string(name))
	return nil
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

// Run reconciles at start, when woken, and each poll period, until ctx ends. What
// is to be said waits for its turn in between and never keeps a decision waiting.
func (b *Bot) Run(ctx context.Context) error {
	for try, streak := 0, 0; ; {
		// Under a storm of webhooks the looks come further apart: they are for calls, which are limited.
		gap := b.cfg.Pause << min(streak, 3)
		err := b.Reconcile(ctx)
		if err == nil {
			try = 0
		} else if ctx.Err() == nil {
			try++
			gap = min(b.cfg.Poll, b.cfg.Pause<<min(try, 12))
			zerolog.Ctx(ctx).Warn().Err(err).Int("try", try).Dur("wait", gap).Msg("look at GitHub failed and is made again")
		}
		if gap = max(gap, b.cooling()); err != nil {
			if !pause(ctx, gap, nil) {
				return nil
			}
			continue // what woke it is still to be done
		}
		storm, alive := b.rest(ctx, gap)
		if !alive {
			return nil
		}
		if streak++; !storm {
			streak = 0
		}
	}
}

// rest says what is left to say and what became of entries meanwhile. It ends with the
// poll period or with a wake, which it hears after the gap, and reports whether one came
// within the gap, and whether ctx still lives.
func (b *Bot) rest(ctx context.Context, gap time.Duration) (storm, alive bool) {
	began := b.cfg.Now()
	for {
		rested := b.cfg.Now().Sub(began)
		if rested >= b.cfg.Poll {
			return false, true
		}
		wake, wait := b.wake, b.cfg.Poll-rested
		if rested < gap {
			wake, wait = nil, min(wait, gap-rested)
		}
		b.mu.Lock()
		turn := b.waits
		b.mu.Unlock()
		say := turn > 0 && turn <= wait
		if say {
			wait = turn
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-wake:
			t.Stop()
			return storm, true
		case <-b.moved:
			say = true
		case <-t.C:
		}
		t.Stop()
		if ctx.Err() != nil {
			return false, false
		}
		if rested < gap {
			storm = len(b.wake) > 0
		}
		if !say {
			continue
		}
		if err := b.Refresh(ctx); err != nil && ctx.Err() == nil {
			zerolog.Ctx(ctx).Warn().Err(err).Msg("a report was put off")
			return storm, pause(ctx, b.cfg.Pause, nil)
		}
		if !pause(ctx, b.cfg.Pause/4, nil) { // landings come by the dozen
			return false, false
		}
	}
}

// Moved says that something was decided about entries or runs; never blocks.
func (b *Bot) Moved() {
	select {
	case b.moved <- struct{}{}:
	default:
	}
}

// MaySteer reports whether an account may freeze the queue and hold green, as GitHub
// has it now.
func (b *Bot) MaySteer(ctx context.Context, who Actor) (bool, error) {
	role, err := b.roleOf(ctx, who)
	return err == nil && command.Freeze.MayAsk(command.Who{Role: role}), err
}

// MayRead reports whether an account may see a private repository, as GitHub has it now.
func (b *Bot) MayRead(ctx context.Context, who Actor) (bool, error) {
	role, err := b.roleOf(ctx, who)
	return err == nil && role >= command.Reader, err
}

func (b *Bot) roleOf(ctx context.Context, who Actor) (command.Role, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cooled() {
		return command.Stranger, b.ready()
	}
	c, err := b.connect(ctx)
	if err != nil {
		return command.Stranger, err
	}
	return c.role(ctx, &github.User{Login: &who.Login, ID: &who.ID})
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
	Reconciles int
	Failures   int // reconciles that ended with an error
	Limited    int // answers that were rate limits
	Calls      int // requests to the API
	Unchanged  int // of them, answered by 304, which costs nothing of the rate
	Remaining  int // requests that GitHub still grants this hour, as of its last answer; 0: not known
	Writes     int // of them, comments and check runs
	Unsaid     int // reports that wait for their turn
	// Unannounced counts the commands in a row that were found by the poll although a
	// delivery should have spoken of them: do webhooks reach us?
	Unannounced int
	Oldest      time.Duration // age of the oldest request that has not come to its end
	CoolUntil   time.Time
}

// Stats is a copy of the counters.
func (b *Bot) Stats() Stats {
	b.statsMu.Lock()
	defer b.statsMu.Unlock()
	return b.stats
}

func (b *Bot) count(f func(*Stats)) {
	b.statsMu.Lock()
	defer b.statsMu.Unlock()
	f(&b.stats)
}

// Ready says why the bot is not at work, or nil.
func (b *Bot) Ready(context.Context) error { return b.ready() }

func (b *Bot) ready() error {
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
