package bot

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/rs/zerolog"

	"greenward/internal/git"
)

// Webhook answers GitHub's deliveries. It verifies the signature before it looks
// at anything else, answers at once, and does nothing but wake the bot.
func (b *Bot) Webhook() http.Handler { return http.HandlerFunc(b.webhook) }

func (b *Bot) webhook(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "deliveries are posted", http.StatusMethodNotAllowed)
		return
	}
	status, outcome := b.accept(w, r)
	b.count(func(s *Stats) { s.Deliveries[outcome]++ })
	level := zerolog.DebugLevel
	if outcome == "signature" {
		level = zerolog.WarnLevel
	}
	zerolog.Ctx(r.Context()).WithLevel(level).Str("verdict", outcome).Msg("delivery was answered")
	http.Error(w, outcome, status)
}

func (b *Bot) accept(w http.ResponseWriter, r *http.Request) (int, string) {
	mac := hmac.New(sha256.New, []byte(b.cfg.Webhook.Reveal()))
	body, err := io.ReadAll(io.TeeReader(http.MaxBytesReader(w, r.Body, b.cfg.MaxBody), mac))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return http.StatusRequestEntityTooLarge, "large"
	}
	if err != nil {
		return http.StatusBadRequest, "malformed"
	}
	given, err := hex.DecodeString(strings.TrimPrefix(r.Header.Get("X-Hub-Signature-256"), "sha256="))
	if err != nil || b.cfg.Webhook == "" || !hmac.Equal(mac.Sum(nil), given) {
		return http.StatusUnauthorized, "signature"
	}
	var hint delivery
	if err := json.Unmarshal(body, &hint); err != nil {
		return http.StatusBadRequest, "malformed"
	}
	b.count(func(s *Stats) { s.Delivered = b.cfg.Now() })
	if !b.concerns(hint) || !wakes(r.Header.Get("X-GitHub-Event")) {
		return http.StatusAccepted, "ignored"
	}
	b.wakeFor(r.Header, hint)
	b.Wake()
	return http.StatusAccepted, "accepted"
}

// delivery is what is read of a payload, of whatever event.
type delivery struct {
	Action     string `json:"action"`
	Repository *struct {
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
func (b *Bot) concerns(d delivery) bool {
	if d.Repository != nil && !strings.EqualFold(d.Repository.FullName, b.cfg.Owner+"/"+b.cfg.Name) {
		return false
	}
	ours := b.cfg.App != 0 && (d.CheckRun.App.ID == b.cfg.App || d.CheckSuite.App.ID == b.cfg.App)
	return !ours || d.again()
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
	switch event {
	case "issues", "issue_comment", "pull_request", "pull_request_review", "push", "status", "check_run", "check_suite", "installation", "installation_repositories", "repository":
		return true
	}
	return false
}
