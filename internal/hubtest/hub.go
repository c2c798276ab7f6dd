package hubtest

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"greenward/internal/hubtest/conform"
	"greenward/internal/proc"
)

// The one repository, and the App that is installed on it.
const (
	Owner        = "acme"
	Name         = "widgets"
	App          = 12345
	Slug         = "queue-bot"
	Installation = 100
	Token        = "hubtest-token" // of the user "robot", id 999, who may write
)

// Person is an account and what it may do here: admin, write, read or none.
type Person struct {
	Login, Permission, Type string // Permission: admin, maintain, write, triage, read or none
	ID                      int64
}

// Comment is one comment of an issue or pull request.
type Comment struct {
	ID               int64
	Number           int
	By               Person
	Body             string
	Created, Updated time.Time
}

// Check is a check run or, with State, a commit status.
type Check struct {
	ID                                 int64
	Name, Head, External               string
	Status, Conclusion, Title, Summary string
	State                              string
	Suite                              string // conclusion of its suite
	Branch                             string // of its suite; set for a job of a workflow
	Among                              string // the commit that it is listed for, wrongly
	Text                               string
	Notes                              int   // annotations
	App                                int64 // whose it is; 0: another App's
	Writes                             int   // how often it was created or changed
}

type issue struct {
	number                         int
	title, body, state, head, base string
	pull, draft                    bool
	by                             Person
	branch                         string // of the head; "": a fork's
	labels                         []string
	updated                        time.Time
	files                          []string
	blocked, merged                bool
}

type event struct {
	id     int64
	number int
	by     Person
	label  string
	at     time.Time
}

// Review is one review of a pull request.
type Review struct {
	ID          int64
	Number      int
	By          Person
	State, Head string
}

// Rules are what a branch demands: by rulesets, and by classic protection.
type Rules struct {
	Checks          []string // of a ruleset
	Reviews         int      // of a ruleset
	DropStale       bool
	MergeQueue      bool
	Bypass          bool     // the App may pass the ruleset by
	Protected       []string // contexts of classic protection; nil: none
	ProtectedReview int
	Hidden          bool // the App may not read the protection
}

// Fault is something that goes wrong with requests.
type Fault struct {
	Match string // a regular expression on "METHOD /path"
	Kind  string // unavailable, lost-answer, cut, secondary-limit, primary-limit, unauthorized, malformed
	Skip  int    // so many matching requests pass first
	Times int
	Retry int  // seconds of Retry-After; 0: no such header
	Ours  bool // people's requests pass
}

// Hub is the stand-in. Safe for concurrent use.
type Hub struct {
	tb    testing.TB
	dir   string
	host  proc.Host
	key   *rsa.PrivateKey
	http  *httptest.Server
	robot Person

	mu         sync.Mutex
	now        func() time.Time
	people     map[string]Person
	visitor    string // who is signed in at GitHub
	issues     []*issue
	comments   []*Comment
	checks     []*Check
	events     []event
	reviews    []*Review
	rules      map[string]Rules
	refs       map[string]string // branches whose deletion is watched
	rights     map[string]string
	gone       string   // "suspended", "deleted": the installation
	subscribed []string // to these events
	minted     []string // for what each token was asked: repositories and permissions
	faults     []*Fault
	calls      []string
	last       int64
	token      string
	news       chan struct{} // closed at the next request
	hook       hook
	releases   []Release
	archived   bool
	renamed    bool
	alias      string // its new name
	private    bool
	dispatched []string
	codes      map[string]manifest // of Apps that are being made
	sending    sync.WaitGroup
	takes      *conform.Description // what GitHub takes, by its own description
}

// New starts a hub over the bare repository dir and stops it when the test ends.
func New(tb testing.TB, dir string, host proc.Host, now func() time.Time) *Hub {
	tb.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 1024) // short, for tests only: made at each start
	if err != nil {
		tb.Fatal(err)
	}
	h := &Hub{tb: tb, dir: dir, host: host, key: key, now: now, people: map[string]Person{}, last: 1000, token: "installation-1", rules: map[string]Rules{}, refs: map[string]string{}}
	h.rights = map[string]string{"checks": "write", "contents": "write", "issues": "write", "pull_requests": "write", "statuses": "write", "metadata": "read", "workflows": "write"}
	h.subscribed = []string{"issues", "issue_comment", "pull_request", "pull_request_review", "push", "check_run", "check_suite", "status", "repository"}
	h.robot = Person{Login: Slug + "[bot]", Type: "Bot", ID: 777}
	if h.takes, err = conform.Load(); err != nil {
		tb.Fatal(err)
	}
	h.codes = map[string]manifest{}
	h.http = httptest.NewServer(h.handler())
	tb.Cleanup(h.http.Close)
	tb.Cleanup(h.sending.Wait)
	h.Person("robot", 999, "write")
	return h
}

// URL is the root of the REST interface.
func (h *Hub) URL() string { return h.http.URL }

// Key is the App's private key as PEM text.
func (h *Hub) Key() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(h.key)}))
}

// Person adds an account, or gives its login to another one.
func (h *Hub) Person(login string, id int64, permission string) Person {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := Person{Login: login, Permission: permission, Type: "User", ID: id}
	h.people[login] = p
	return p
}

func (h *Hub) next() int64 { h.last++; return h.last }

// Issue opens an issue and returns its number.
func (h *Hub) Issue(by Person, title, body string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.add(&issue{title: title, body: body, by: by})
}

func (h *Hub) add(i *issue) int {
	i.number, i.state, i.updated = len(h.issues)+1, "open", h.now()
	h.issues = append(h.issues, i)
	return i.number
}

// Pull opens a pull request of head into base and returns its number.
func (h *Hub) Pull(by Person, head, base string) int {
	h.mu.Lock()
	number := h.add(&issue{title: "a pull request", by: by, pull: true, head: head, base: base})
	h.mu.Unlock()
	h.point(number, head)
	return number
}

// Push gives a pull request another head.
func (h *Hub) Push(number int, head string) {
	h.point(number, head)
	h.change(number, func(i *issue) { i.head = head })
}

// Retarget gives a pull request another base branch.
func (h *Hub) Retarget(number int, base string) { h.change(number, func(i *issue) { i.base = base }) }

// Draft makes a pull request a draft, or ready.
func (h *Hub) Draft(number int, draft bool) { h.change(number, func(i *issue) { i.draft = draft }) }

// Close closes an issue or pull request.
func (h *Hub) Close(number int) { h.change(number, func(i *issue) { i.state = "closed" }) }

func (h *Hub) change(number int, f func(*issue)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.issues[number-1]
	f(i)
	i.updated = h.now()
}

// point moves refs/pull/<number>/head.
func (h *Hub) point(number int, head string) {
	h.tb.Helper()
	if head == "" {
		return // one that GitHub shows without a head
	}
	if out, ok := h.git(h.tb.Context(), "update-ref", fmt.Sprintf("refs/pull/%d/head", number), head); !ok {
		h.tb.Fatalf("point pull request %d at %s: %s", number, head, out)
	}
}

// Label sets a label on an issue.
func (h *Hub) Label(by Person, number int, label string) {
	h.change(number, func(i *issue) {
		i.labels = append(i.labels, label)
		h.events = append(h.events, event{h.next(), number, by, label, h.now()})
		h.emit("issues", "labeled", i, by)
	})
}

// Unlabel takes a label off.
func (h *Hub) Unlabel(number int, label string) {
	h.change(number, func(i *issue) {
		i.labels = slices.DeleteFunc(i.labels, func(l string) bool { return l == label })
	})
}

// Comment writes a comment and returns its id.
func (h *Hub) Comment(by Person, number int, body string) int64 {
	var id int64
	h.change(number, func(i *issue) {
		id = h.comment(by, number, body).ID
		h.emit("issue_comment", "created", i, by)
	})
	return id
}

func (h *Hub) comment(by Person, number int, body string) *Comment {
	c := &Comment{ID: h.next(), Number: number, By: by, Body: body, Created: h.now(), Updated: h.now()}
	h.comments = append(h.comments, c)
	return c
}

// Edit changes a comment's text.
func (h *Hub) Edit(id int64, body string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.comments {
		if c.ID == id {
			c.Body, c.Updated = body, h.now()
			h.issues[c.Number-1].updated = h.now()
		}
	}
}

// Comments are those of one issue or pull request that the bot wrote.
func (h *Hub) Comments(number int) []Comment {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []Comment
	for _, c := range h.comments {
		if c.Number == number && (c.By.ID == h.robot.ID || c.By.ID == 999) {
			list = append(list, *c)
		}
	}
	return list
}

// DeleteComment removes a comment.
func (h *Hub) DeleteComment(id int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.comments = slices.DeleteFunc(h.comments, func(c *Comment) bool { return c.ID == id })
}

// Checks are the check runs and statuses on a commit.
func (h *Hub) Checks(head string) []Check {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []Check
	for _, c := range h.checks {
		if c.Head == head {
			list = append(list, *c)
		}
	}
	return list
}

// Report is another App's check run on a commit, as it stands now; conclusion ""
// while it runs. It returns the run's id; given an id, it changes that run.
func (h *Hub) Report(id int64, head, name, conclusion string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	var run *Check
	for _, c := range h.checks {
		if c.ID == id {
			run = c
		}
	}
	if run == nil {
		run = &Check{ID: h.next(), Head: head, Name: name}
		h.checks = append(h.checks, run)
	}
	run.Status, run.Conclusion = "completed", conclusion
	if conclusion == "" {
		run.Status = "in_progress"
	}
	return run.ID
}

// Ran makes a run a job of a workflow that ran for a branch.
func (h *Hub) Ran(id int64, branch string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.checks {
		if c.ID == id {
			c.Branch = branch
		}
	}
}

// Misreport lists a run among those of another commit.
func (h *Hub) Misreport(id int64, head string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.checks {
		if c.ID == id {
			c.Among = head
		}
	}
}

// Status is a commit status that somebody sets: success, failure, error or pending.
func (h *Hub) Status(head, context, state string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = append(h.checks, &Check{ID: h.next(), Head: head, Name: context, State: state})
}

// Fail adds a fault.
func (h *Hub) Fail(f Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, &f)
}

// Calm takes back the faults that have not struck.
func (h *Hub) Calm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = nil
}

// Calls returns "METHOD /path" of every request since the last call of Calls, or
// "304 METHOD /path" where the asker had the answer already.
func (h *Hub) Calls() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.calls
	h.calls = nil
	return list
}

// News is closed when the next request has been answered.
func (h *Hub) News() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.news == nil {
		h.news = make(chan struct{})
	}
	return h.news
}

// Expire makes every installation token stale.
func (h *Hub) Expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.token = fmt.Sprintf("installation-%d", h.next())
}

// Sign is the value of X-Hub-Signature-256 for a delivery.
func Sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
