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
	var hint struct {
		Repository *struct {
			FullName string `json:"full_name"`
		} `json:"repository"`
		Issue       numbered `json:"issue"`
		PullRequest numbered `json:"pull_request"`
		SHA         string   `json:"sha"` // of a status
		CheckRun    onHead   `json:"check_run"`
		CheckSuite  onHead   `json:"check_suite"`
	}
	if err := json.Unmarshal(body, &hint); err != nil {
		return http.StatusBadRequest, "malformed"
	}
	if hint.Repository != nil && !strings.EqualFold(hint.Repository.FullName, b.cfg.Owner+"/"+b.cfg.Name) || !wakes(r.Header.Get("X-GitHub-Event")) ||
		b.cfg.App != 0 && (hint.CheckRun.App.ID == b.cfg.App || hint.CheckSuite.App.ID == b.cfg.App) { // our own writes come back as events
		return http.StatusAccepted, "ignored"
	}
	b.hint(hint.Issue.Number, hint.PullRequest.Number) // where to look first, no more
	for _, sha := range []string{hint.SHA, hint.CheckRun.HeadSHA, hint.CheckSuite.HeadSHA} {
		if h, err := git.ParseHash(sha); err == nil {
			b.name(h)
		}
	}
	b.Wake()
	return http.StatusAccepted, "accepted"
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

// wakes reports whether an event can mean something to do. What is left out here
// costs a poll period at most.
func wakes(event string) bool {
	switch event {
	case "issues", "issue_comment", "pull_request", "pull_request_review", "push", "status", "check_run", "check_suite", "installation", "installation_repositories", "repository":
		return true
	}
	return false
}
