package bot

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"greenward/bot/command"
	"greenward/bot/limit"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/hubtest"
)

// desk is a bot at work: GitHub, the hub where changes wait, and a clock of its own.
type desk struct {
	*testing.T
	gh      *hubtest.Hub
	queue   *queue
	runs    *runs
	orders  *orders
	rates   limit.Rates
	secret  Secret
	maxBody int64
	patched []string
	cfg     Config
	door    *Door
	bot     *Bot
	alice   hubtest.Person
	mal     hubtest.Person

	mu  sync.Mutex
	now time.Time
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{T: t, now: gittest.Start(), secret: "s3cr3t"}
	remote := gittest.Bare(t)
	d.commit(remote, "main", "base")
	d.gh = hubtest.New(t, remote, gittest.Host(t), d.clock)
	d.queue = &queue{t: t, remote: remote, hub: gittest.Bare(t), decided: map[string]Outcome{}}
	d.runs, d.orders = &runs{goals: map[string]string{}}, &orders{given: map[string]Order{}}
	d.alice, d.mal = d.gh.Person("alice", 3, "write"), d.gh.Person("mallory", 5, "read")
	d.cfg = Config{
		Owner: hubtest.Owner, Name: hubtest.Name, API: d.gh.URL(), App: hubtest.App, Key: Secret(d.gh.Key()),
		Dir: t.TempDir(), Queue: d.queue, Runs: d.runs, Orders: d.orders, Now: d.clock, Pause: 1,
	}
	d.restart()
	return d
}

func (d *desk) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *desk) pass(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

// restart is a new process on the same directory.
func (d *desk) restart() {
	d.Helper()
	limits, err := limit.Open(filepath.Join(d.cfg.Dir, "limits.json"), d.rates, d.clock) // without a gap: the clock stands still
	if err != nil {
		d.Fatal(err)
	}
	d.cfg.Limits = limits
	b, err := New(d.cfg)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = b.Close() })
	d.bot = b
	d.door = NewDoor(DoorConfig{Secret: func() Secret { return d.secret }, MaxBody: d.maxBody, Now: d.clock})
	d.door.Add(b)
}

// tick reconciles and lets ten seconds pass.
func (d *desk) tick() {
	d.Helper()
	if err := d.bot.Reconcile(d.Context()); err != nil {
		d.Fatal(err)
	}
	d.pass(10 * time.Second)
}

func (d *desk) commit(dir, branch, text string) string {
	d.Helper()
	return gittest.Commit(d.T, dir, branch, text, map[string]string{"file": text})
}

func (d *desk) pull() (number int, head string) {
	d.Helper()
	head = d.commit(d.queue.remote, "topic", "work")
	return d.gh.Pull(d.mal, head, "main"), head
}

// said is the bot's one comment on an issue or pull request.
func (d *desk) said(number int) string {
	d.Helper()
	list := d.gh.Comments(number)
	if len(list) != 1 {
		d.Fatalf("%d comments of the bot on #%d, want 1: %v", len(list), number, list)
	}
	return list[0].Body
}

func (d *desk) wantQueued(want ...string) {
	d.Helper()
	got := strings.Fields(gittest.Git(d.T, d.queue.hub, "for-each-ref", "--format=%(refname:lstrip=3)@%(objectname)", git.QueuePrefix))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		d.Fatalf("queued: %v, want %v", got, want)
	}
}

// queue is a hub in real git whose lander is the test.
type queue struct {
	t           *testing.T
	remote, hub string
	decided     map[string]Outcome
	content     bool // approvals are of the content
	building    bool // what waits is being tested
	unchecked   bool // nothing says that what lands is checked
	bors        string
	allowed     []string // who allowed what was submitted
}

func (q *queue) Policy(context.Context) (Policy, error) {
	return Policy{Checked: !q.unchecked, Bors: []byte(q.bors), Content: q.content}, nil
}

func (q *queue) Same(_ context.Context, source git.Ref, was, next git.Hash) (bool, error) {
	gittest.Git(q.t, q.hub, "fetch", "-q", q.remote, string(source))
	if strings.TrimSpace(gittest.Git(q.t, q.hub, "rev-parse", "FETCH_HEAD")) != string(next) {
		return false, ErrMoved
	}
	return gittest.Git(q.t, q.hub, "rev-parse", string(was)+"^{tree}") == gittest.Git(q.t, q.hub, "rev-parse", string(next)+"^{tree}"), nil
}

func (q *queue) Submit(_ context.Context, c Change) error {
	gittest.Git(q.t, q.hub, "fetch", "-q", q.remote, string(c.Source))
	if strings.TrimSpace(gittest.Git(q.t, q.hub, "rev-parse", "FETCH_HEAD")) != string(c.Head) {
		return ErrMoved
	}
	if q.at(c.Name) == string(c.Head) {
		return nil
	}
	q.allowed = append(q.allowed, fmt.Sprintf("%s %s(%d) %s", git.EntryID(c.Name, c.Head), c.By.Login, c.By.ID, c.Why))
	delete(q.decided, git.EntryID(c.Name, c.Head))
	gittest.Git(q.t, q.hub, "update-ref", git.QueuePrefix+c.Name, string(c.Head))
	return nil
}

func (q *queue) at(name string) string {
	return strings.TrimSpace(gittest.Git(q.t, q.hub, "for-each-ref", "--format=%(objectname)", git.QueuePrefix+name))
}

func (q *queue) Withdraw(_ context.Context, name string, head git.Hash) error {
	if q.at(name) == string(head) {
		gittest.Git(q.t, q.hub, "update-ref", "-d", git.QueuePrefix+name, string(head))
	}
	return nil
}

func (q *queue) Outcome(_ context.Context, name string, head git.Hash) (Outcome, error) {
	if out, ok := q.decided[git.EntryID(name, head)]; ok {
		return out, nil
	}
	if q.at(name) == string(head) {
		if q.building {
			return Outcome{State: stateBuilding}, nil
		}
		return Outcome{State: stateWaiting}, nil
	}
	return Outcome{}, nil
}

// decide is the lander's verdict on an entry.
func (q *queue) decide(name, head string, out Outcome) {
	if q.at(name) == head {
		gittest.Git(q.t, q.hub, "update-ref", "-d", git.QueuePrefix+name, head)
	}
	q.decided[git.EntryID(name, git.Hash(head))] = out
}

type runs struct {
	goals map[string]string
	args  []command.Args
	how   Progress
}

func (r *runs) key(issue int, trigger string) string { return fmt.Sprintf("%d-%s", issue, trigger) }

func (r *runs) Start(ctx context.Context, q Request) (string, error) {
	if _, err := git.ParseRef(git.SeenPrefix + r.key(q.Issue, q.Trigger)); err != nil {
		return "", err
	}
	r.goals[r.key(q.Issue, q.Trigger)] = q.Goal
	r.args = append(r.args, q.Args)
	return r.Seen(ctx, q.Issue, q.Trigger)
}

func (r *runs) Seen(_ context.Context, issue int, trigger string) (string, error) {
	if _, ok := r.goals[r.key(issue, trigger)]; !ok {
		return "", nil
	}
	return fmt.Sprintf("issue-%d-%s", issue, trigger), nil
}

func (r *runs) Progress(context.Context, string) (Progress, error) {
	if r.how.State == "" {
		return Progress{State: "waiting"}, nil
	}
	return r.how, nil
}

// orders keeps steering by its key, as git does.
type orders struct {
	given map[string]Order
	list  []string
}

func (o *orders) Order(_ context.Context, one Order) error {
	if _, err := git.ParseRef(git.SeenPrefix + one.Key); err != nil {
		return err
	}
	if _, again := o.given[one.Key]; !again {
		o.given[one.Key] = one
		o.list = append(o.list, strings.TrimSpace(fmt.Sprintf("%s %s %s(%d): %s", one.Verb, one.Arg, one.By.Login, one.By.ID, one.Reason)))
	}
	return nil
}

// removeMemory is a new process that has lost everything but the repository.
func removeMemory(d *desk) error {
	d.Helper()
	for _, f := range []string{"memory.json", "effects.jsonl"} {
		if err := os.Remove(filepath.Join(d.cfg.Dir, f)); err != nil {
			return err
		}
	}
	d.restart()
	return nil
}
