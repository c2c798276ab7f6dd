package bot

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"greenward/internal/git"
)

// Door answers GitHub's deliveries for the bots behind it. It verifies the signature
// before it looks at anything else, answers at once, and does nothing but wake.
// Safe for concurrent use.
type Door struct {
	cfg DoorConfig

	mu    sync.Mutex
	bots  map[*Bot]bool
	stats DoorStats
}

// DoorConfig is what main tells a door.
type DoorConfig struct {
	Secret    func() Secret // required; "": every delivery is refused
	MaxBody   int64         // bytes; default 25 MiB
	Now       func() time.Time
	Installed func() // called when an installation or a repository changed; may be nil
}

// DoorStats counts since the start of the process.
type DoorStats struct {
	Deliveries map[string]int // by outcome: accepted, ignored, signature, malformed, large
	Delivered  time.Time      // of the last delivery with a good signature
	Refused    int            // with a bad signature, in a row
}

// NewDoor makes a door with nobody behind it.
func NewDoor(cfg DoorConfig) *Door {
	cfg.MaxBody = cmp.Or(cfg.MaxBody, 25<<20)
	return &Door{cfg: cfg, bots: map[*Bot]bool{}, stats: DoorStats{Deliveries: map[string]int{}}}
}

// Add puts a bot behind the door; Remove takes it away.
func (d *Door) Add(b *Bot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bots[b] = true
}

// Remove is the opposite of Add.
func (d *Door) Remove(b *Bot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.bots, b)
}

// Stats is a copy of the counters.
func (d *Door) Stats() DoorStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Deliveries = maps.Clone(s.Deliveries)
	return s
}

// refusedAlarm is how many bad signatures in a row are worth a person's look: the secret
// may have changed on GitHub and not here. Anybody can send such deliveries, so they are
// told and counted and stop nothing.
const refusedAlarm = 10

// doubtError tells of signatures that were refused.
type doubtError struct{ refused int }

func (e doubtError) Error() string {
	return fmt.Sprintf("the last %d deliveries had a bad signature: if GitHub sent them, its webhook's secret does not equal the one here (greenward doctor asks GitHub); until then news cost a poll period", e.refused)
}

// Degraded says that the server works on: what no delivery tells is found by the poll.
func (doubtError) Degraded() bool { return true }

// Ready tells of signatures that are refused one after the other. It never says that
// the server is not at work: strangers must not be able to bring that about.
func (d *Door) Ready(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.stats.Refused; n >= refusedAlarm {
		return doubtError{n}
	}
	return nil
}

// ServeHTTP answers one delivery.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "deliveries are posted", http.StatusMethodNotAllowed)
		return
	}
	status, outcome := d.accept(w, r)
	d.mu.Lock()
	d.stats.Deliveries[outcome]++
	refused := d.stats.Refused
	d.mu.Unlock()
	level := zerolog.DebugLevel
	if outcome == "signature" && worthALine(refused) {
		level = zerolog.WarnLevel
	}
	zerolog.Ctx(r.Context()).WithLevel(level).Str("verdict", outcome).Str("delivery", r.Header.Get("X-GitHub-Delivery")).Int("refused", refused).Msg("delivery was answered")
	http.Error(w, outcome, status)
}

// worthALine thins out what strangers could fill the log with: the first refusal in a
// row, the tenth, the hundredth and so on.
func worthALine(refused int) bool {
	for refused >= 10 && refused%10 == 0 {
		refused /= 10
	}
	return refused == 1
}

func (d *Door) accept(w http.ResponseWriter, r *http.Request) (int, string) {
	secret := d.cfg.Secret()
	mac := hmac.New(sha256.New, []byte(secret.Reveal()))
	body, err := io.ReadAll(io.TeeReader(http.MaxBytesReader(w, r.Body, d.cfg.MaxBody), mac))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return http.StatusRequestEntityTooLarge, "large"
	}
	if err != nil {
		return http.StatusBadRequest, "malformed"
	}
	given, err := hex.DecodeString(strings.TrimPrefix(r.Header.Get("X-Hub-Signature-256"), "sha256="))
	good := err == nil && secret != "" && hmac.Equal(mac.Sum(nil), given)
	d.mu.Lock()
	if d.stats.Refused++; good {
		d.stats.Refused, d.stats.Delivered = 0, d.cfg.Now()
	}
	d.mu.Unlock()
	if !good {
		return http.StatusUnauthorized, "signature"
	}
	var hint delivery
	if err := json.Unmarshal(body, &hint); err != nil {
		return http.StatusBadRequest, "malformed"
	}
	event := r.Header.Get("X-GitHub-Event")
	if d.cfg.Installed != nil && (strings.HasPrefix(event, "installation") || event == "repository") {
		d.cfg.Installed()
	}
	if !wakes(event) {
		return http.StatusAccepted, "ignored"
	}
	outcome := "ignored"
	d.mu.Lock()
	defer d.mu.Unlock()
	for b := range d.bots {
		if b.concerns(event, hint) {
			b.wakeFor(r.Header, hint)
			b.Wake()
			outcome = "accepted"
		}
	}
	return http.StatusAccepted, outcome
}

// delivery is what is read of a payload, of whatever event.
type delivery struct {
	Action     string `json:"action"`
	Repository *struct {
		ID       int64  `json:"id"`
		FullName string `json:"full_name"`
	} `json:"repository"`
	Issue       numbered `json:"issue"`
	PullRequest numbered `json:"pull_request"`
	SHA         string   `json:"sha"` // of a status
	CheckRun    onHead   `json:"check_run"`
	CheckSuite  onHead   `json:"check_suite"`
	Sender      Actor    `json:"sender"`
}

type numbered struct {
	Number int `json:"number"`
}

type onHead struct {
	HeadSHA string `json:"head_sha"`
	App     struct {
		ID int64 `json:"id"`
	} `json:"app"`
}

// again reports whether somebody asks for a check run of ours once more, by the
// button of GitHub or by ours.
func (d delivery) again() bool {
	return d.Action == "rerequested" || d.Action == "requested_action"
}

// concerns reports whether a delivery may mean something to do here: it is of this
// repository, and not the echo of what we wrote ourselves.
func (b *Bot) concerns(event string, d delivery) bool {
	if event == "issue_comment" && strings.HasSuffix(d.Sender.Login, "[bot]") {
		return false // no bot is answered, we ourselves least of all
	}
	if d.Repository != nil && !strings.EqualFold(d.Repository.FullName, b.cfg.Owner+"/"+b.cfg.Name) && !b.is(d.Repository.ID) {
		return false
	}
	ours := b.cfg.App != 0 && (d.CheckRun.App.ID == b.cfg.App || d.CheckSuite.App.ID == b.cfg.App)
	return !ours || d.again()
}

// is reports whether a repository is ours by its id, which it keeps when it is renamed.
func (b *Bot) is(repository int64) bool {
	b.statsMu.Lock()
	defer b.statsMu.Unlock()
	return repository != 0 && repository == b.repository
}

// wakeFor says where to look first, no more.
func (b *Bot) wakeFor(header http.Header, d delivery) {
	var commits []git.Hash
	var again []rerun
	for _, sha := range []string{d.SHA, d.CheckRun.HeadSHA, d.CheckSuite.HeadSHA} {
		h, err := git.ParseHash(sha)
		if err != nil {
			continue // absent, or none: the poll finds what there is
		}
		commits = append(commits, h)
		ours := b.cfg.App != 0 && (d.CheckRun.App.ID == b.cfg.App || d.CheckSuite.App.ID == b.cfg.App)
		if d.again() && ours && sha != d.SHA {
			again = append(again, rerun{header.Get("X-GitHub-Delivery"), h, d.Sender})
		}
	}
	b.hint([]int{d.Issue.Number, d.PullRequest.Number}, commits, again...)
}

// wakes reports whether an event can mean something to do. What is left out here
// costs a poll period at most.
func wakes(event string) bool {
	return event == "installation" || event == "installation_repositories" || slices.Contains(subscribed(), event)
}

// subscribed are the events that the App asks for; those of its installation come anyway.
func subscribed() []string {
	return []string{"issues", "issue_comment", "pull_request", "pull_request_review", "push", "status", "check_run", "check_suite", "repository"}
}
