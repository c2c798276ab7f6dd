// Package config owns the policy file .greenward.yml: what it may say, what an
// absent key means, and every fault in it at once. It reads bytes that its
// caller found, at a commit or in a working tree; it speaks no git, reads no
// environment and decides nothing: queue, green and agents do.
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// The places where a policy may stand, best first.
const (
	File         = ".greenward.yml"
	FallbackFile = ".github/greenward.yml"
)

// ErrNoChecks says that nothing can be judged, and how to change that.
var ErrNoChecks = errors.New("no required checks are configured, so nothing can be called green: add one to " + File +
	", such as `checks: [{name: test, run: go test ./...}]`, or write `checks: none` if that is meant")

// A Config is one policy, whole: absent keys hold their defaults.
type Config struct {
	Main       string // branch name
	Checks     []Check
	ChecksNone bool // `checks: none`: it is meant that nothing is checked
	Queue      Queue
	Green      Green
	Agents     Agents
}

// A Check is a named command, or a verdict that is read from the forge.
type Check struct {
	Name     string
	Run      string // for sh -c; empty when Remote is set
	Timeout  time.Duration
	Report   string // none, go-json, junit:GLOB or tap
	Required bool
	History  bool
	Sandbox  bool
	Remote   string // the forge's name of the check; empty when Run is set
	// Renamed are other names of the forge under which the same check is
	// accepted, while a rename makes its way.
	Renamed []string
	// AtLeast is how long a run of the forge takes that did anything: a pass in less is
	// none. Zero: any length will do. Statuses have no length.
	AtLeast    time.Duration
	Quarantine Quarantine
	Bounds     Bounds
	HoldOut    bool // agents are not shown it: it judges their patches
}

// Bounds are what the processes of one run of a check may take together; zero is
// no bound.
type Bounds struct {
	Memory    int64 // bytes
	Processes int   // and threads
	FileSize  int64 // bytes of one file
}

// A Quarantine takes a required check out of the judgement for a while. Its zero
// value is none.
type Quarantine struct {
	Owner  string // who gets the check well again
	Until  time.Time
	Reason string
}

// Active reports whether the quarantine holds at a moment.
func (q Quarantine) Active(now time.Time) bool { return !q.Until.IsZero() && now.Before(q.Until) }

// Expired reports whether there is a quarantine that is over at a moment.
func (q Quarantine) Expired(now time.Time) bool { return !q.Until.IsZero() && !now.Before(q.Until) }

// A Queue says how changes land.
type Queue struct {
	Policy      string   // tolerant, gated or adaptive
	Smoke       []string // names of checks
	ErrorBudget float64  // 0.25 for 25%
	Method      string   // rebase, squash or merge
	PullMethod  string   // Method for pull requests: what the file says, else merge
	Approvals   string   // of pull requests: head (each push voids one) or content (a push of the same content keeps it)
	Slots       int
	Embargo     []string
	Gate        Gate
}

// A Gate holds the mechanical rules of landing.
type Gate struct {
	MaxFile int64    // bytes
	Deny    []string // globs of paths
	Banned  []string // texts
	Skip    []Skip
	Parse   []Parser
}

// A Parser is a command that reads one file on its standard input and fails when
// that is not of its language.
type Parser struct {
	Paths []string // globs of the files that it is for
	Run   string
}

// A Skip takes paths out of one rule of the gate.
type Skip struct {
	Rule  string
	Paths []string // globs
}

// A Green says how snapshots are judged, repaired and promoted.
type Green struct {
	Branch     string
	Schedule   string   // cron, five fields or a descriptor
	Repair     []string // revert, subset, agent, prefix: in the order to try
	Tags       string   // daily, all or none
	Announce   string   // none, release or deployment: what a forge is told of a promotion
	StaleAfter time.Duration
	Soak       time.Duration // how long a tree has to stay accepted before it becomes green; 0: not at all
	DebtLimit  int
	Protected  []string // globs
	HoldOut    []string // globs of files that agents who mend are not shown
	NoRevert   NoRevert
	Signers    []string // lines of an allowed signers file
}

// An Agents says who works and within which bounds.
type Agents struct {
	Workers   int
	Model     string // empty: none
	Roles     map[string]Role
	Sandbox   string // auto, on or off
	Network   bool   // whether commands of agents reach the machine's network
	MinDisk   int64  // bytes that must be free for a new workspace
	Limits    Limits
	Budget    Budget
	Providers []Provider
	Caches    map[string]string // name to shared, layered or private
}

// A Role overrides the model of one role, or puts a command in its place.
type Role struct {
	Model   string
	Effort  string
	Command []string
	Network bool     // for this role, where it is off for all
	Env     []string // names of variables that the command is given from greenward's own environment
	Home    []string // paths below the person's home that its own home shows, read-only
}

// A Limits bounds one agent.
type Limits struct {
	Memory    int64 // bytes
	Processes int
	CPUs      float64 // processors' worth of time; 0: no bound
	FileSize  int64   // bytes of one file
	IO        int64   // bytes a second from and to the disk; 0: no bound
	Time      time.Duration
	Silence   time.Duration // most that a command in a model's place may show no sign of work; 0: no bound
	Steps     int
	Tokens    int64
	Output    int64 // bytes of one tool's output
}

// A Budget bounds one run; zero is no bound.
type Budget struct {
	USD    float64
	Tokens int64
	Slice  float64 // most of it that one task, or one slice of the run, may take; 0: all
}

// A Provider is one model server.
type Provider struct {
	URL            string
	Wire           string // chat or responses
	MaxTokensField string // max_tokens or max_completion_tokens
	Context        int    // tokens
	Concurrency    int    // most requests at a time
	NoStream       bool   // replies come whole
	NoStreamUsage  bool   // the server refuses to be asked for usage at the end of a stream
	SendReasoning  bool   // the server wants its reasoning_content back
	MaxTokens      int    // of a reply; 0: the server's own limit
	SystemRole     string // system, developer or user
	OneCall        bool   // the server mixes up several calls of one reply
	MustCall       bool   // the server can be told that a reply has to be a call
	Prices         map[string]Price
}

// A Price is in USD for a million tokens.
type Price struct{ In, Cached, Out float64 }

// Default is the policy of a repository that says nothing: it has no checks.
func Default() Config {
	return Config{
		Main: "main",
		Queue: Queue{
			Approvals:   "head",
			Policy:      "adaptive",
			ErrorBudget: 0.25,
			Method:      "rebase",
			PullMethod:  "merge",
			Slots:       2,
			Gate:        Gate{MaxFile: 5 << 20},
		},
		Green: Green{
			Branch:     "green",
			Schedule:   "*/10 * * * *",
			Repair:     []string{"revert", "subset", "agent", "prefix"},
			Tags:       "daily",
			Announce:   "none",
			StaleAfter: 2 * time.Hour,
			DebtLimit:  3,
			Protected:  []string{File, ".github/**"},
		},
		Agents: Agents{
			Workers: 8,
			Sandbox: "auto",
			MinDisk: 1 << 30,
			Limits:  Limits{Memory: 2 << 30, Processes: 1000, FileSize: 4 << 30, Time: 45 * time.Minute, Silence: 20 * time.Minute, Steps: 200, Tokens: 2_000_000, Output: 64 << 10},
			Caches:  map[string]string{"GOCACHE": "shared", "npm": "shared"},
		},
	}
}

// Load reads the policy through read and names the file it stands in; path is
// empty where there is none, and the policy then is Default. An absent file is
// an error from read that is fs.ErrNotExist. A malformed policy is an *Error.
func Load(read func(path string) ([]byte, error)) (c Config, path string, err error) {
	for _, path := range []string{File, FallbackFile} {
		data, err := read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Config{}, path, fmt.Errorf("read %s: %w", path, err)
		}
		c, err := Parse(data)
		if bad, ok := errors.AsType[*Error](err); ok {
			bad.File = path
		}
		return c, path, err
	}
	return Default(), "", nil
}

// NoRevert is whose commits no machine takes back on main. Green may leave them
// out all the same; a person decides about main.
type NoRevert struct {
	Authors []string // globs over e-mail addresses
	Paths   []string // globs; one path of the commit is enough
}

// Required are the checks that a green tree must pass.
func (c Config) Required() []Check {
	return slices.DeleteFunc(slices.Clone(c.Checks), func(k Check) bool { return !k.Required })
}

// Check finds a check by its exact name.
func (c Config) Check(name string) (Check, bool) {
	i := slices.IndexFunc(c.Checks, func(k Check) bool { return k.Name == name })
	if i < 0 {
		return Check{}, false
	}
	return c.Checks[i], true
}

// Smoke are the checks that run before landing in tolerant mode.
func (c Config) Smoke() []Check {
	var smoke []Check
	for _, name := range c.Queue.Smoke {
		if k, ok := c.Check(name); ok {
			smoke = append(smoke, k)
		}
	}
	return smoke
}

// NeedChecks is ErrNoChecks where no check is required and the policy does not
// say that this is meant.
func (c Config) NeedChecks() error {
	if c.ChecksNone || slices.ContainsFunc(c.Checks, func(k Check) bool { return k.Required }) {
		return nil
	}
	return ErrNoChecks
}

// Answers reports whether the forge's check of this name gives the verdict of k:
// its remote name or one of those that it was renamed from or to, whole.
func (k Check) Answers(name string) bool {
	return k.Remote != "" && (name == k.Remote || slices.Contains(k.Renamed, name))
}

// Def is the hash of all that decides what a run of the check means: 16 hex
// digits. The name is not in it, for evidence names the check beside it, nor are
// Required and Quarantine, which judge the verdict and do not change it, nor is
// Renamed, so that evidence under either name is evidence of the one check.
func (k Check) Def() string {
	what := []any{"check/1", k.Run, k.Timeout.String(), k.Report, k.History, k.Sandbox, k.Remote}
	if k.Bounds != (Bounds{}) {
		what = append(what, k.Bounds)
	}
	if k.AtLeast > 0 {
		what = append(what, k.AtLeast.String())
	}
	def, err := json.Marshal(what)
	if err != nil {
		panic(err) // strings and booleans always encode
	}
	sum := sha256.Sum256(def)
	return hex.EncodeToString(sum[:8])
}
