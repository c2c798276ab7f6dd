package bot

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"greenward/internal/hubtest"
)

func (d *desk) deliver(event, signature, body string) int {
	return d.deliverAs("", event, signature, body)
}

func (d *desk) deliverAs(guid, event, signature, body string) int {
	r := httptest.NewRequestWithContext(d.Context(), http.MethodPost, "/webhook", strings.NewReader(body))
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("X-GitHub-Delivery", guid)
	r.Header.Set("X-Hub-Signature-256", signature)
	w := httptest.NewRecorder()
	d.door.ServeHTTP(w, r)
	return w.Code
}

func (d *desk) woken() bool {
	select {
	case <-d.bot.wake:
		return true
	default:
		return false
	}
}

func TestH16WebhookOnlyWakes(t *testing.T) {
	d := newDesk(t)
	d.maxBody = 1000
	d.restart()
	mine, other := `{"repository":{"full_name":"Acme/Widgets"}}`, `{"repository":{"full_name":"acme/vault"}}`
	for _, tc := range []struct {
		name, event, body, sign string
		status                  int
		wakes                   bool
	}{
		{"comment", "issue_comment", mine, "", 202, true},
		{"installation", "installation", `{"action":"suspend"}`, "", 202, true},
		{"other repository", "issue_comment", other, "", 202, false},
		{"unknown event", "sponsorship", mine, "", 202, false},
		{"own check run", "check_run", `{"repository":{"full_name":"acme/widgets"},"check_run":{"app":{"id":12345}}}`, "", 202, false}, // H16
		{"own comment", "issue_comment", `{"repository":{"full_name":"acme/widgets"},"sender":{"login":"queue-bot[bot]","id":777}}`, "", 202, false},
		{"wrong signature", "issue_comment", mine, hubtest.Sign("guess", []byte(mine)), 401, false},
		{"signature of another body", "issue_comment", mine, hubtest.Sign("s3cr3t", []byte(other)), 401, false},
		{"old kind of signature", "issue_comment", mine, "sha1=00", 401, false},
		{"no signature", "issue_comment", mine, "none", 401, false},
		{"malformed", "issue_comment", `{"repository":[`, "", 400, false},
		{"not an object", "issue_comment", `[]`, "", 400, false},
		{"null", "ping", `null`, "", 202, false},
		{"large", "issue_comment", strings.Repeat(" ", 2000), "", 413, false},
	} {
		sign := tc.sign
		switch sign {
		case "":
			sign = hubtest.Sign("s3cr3t", []byte(tc.body))
		case "none":
			sign = ""
		}
		if got := d.deliver(tc.event, sign, tc.body); got != tc.status || d.woken() != tc.wakes {
			t.Errorf("%s: answered %d, want %d and wake %v", tc.name, got, tc.status, tc.wakes)
		}
	}
	if s := d.door.Stats().Deliveries; s["signature"] != 4 || s["accepted"] != 2 {
		t.Errorf("counted %v", s)
	}
	d.secret = ""
	d.restart()
	if got := d.deliver("issue_comment", hubtest.Sign("", []byte(mine)), mine); got != 401 {
		t.Errorf("without a secret: %d", got)
	}
}
