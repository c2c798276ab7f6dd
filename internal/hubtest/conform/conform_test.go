package conform

import (
	"net/url"
	"strings"
	"testing"
)

// What GitHub takes passes, and each way to differ is told.
func TestCheck(t *testing.T) {
	d, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	const r = "/repos/acme/widgets"
	for _, tc := range []struct{ call, query, body, want string }{
		{"GET /app", "", "", ""},
		{"GET " + r + "/issues", "state=open&per_page=100&since=2026-01-01T00:00:00Z", "", ""},
		{"GET " + r + "/issues", "state=openish", "", "state is openish"},
		{"GET " + r + "/issues", "per_page=many", "", `per_page is "many"`},
		{"GET " + r + "/issues", "colour=red", "", "colour is not described"},
		{"GET " + r + "/git/ref/heads/a/b", "", "", ""},
		{"GET " + r + "/commits/a/b/check-runs", "filter=all", "", ""},
		{"GET " + r + "/nothing", "", "", "no such operation"},
		{"DELETE /app", "", "", "no such operation"},
		{"POST " + r + "/issues/x/comments", "", `{"body":"x"}`, "issue_number"},
		{"POST " + r + "/issues/1/comments", "", `{"body":"x"}`, ""},
		{"POST " + r + "/issues/1/comments", "", "", "the body is missing"},
		{"POST " + r + "/issues/1/comments", "", `{"text":"x"}`, "lacks body"},
		{"POST " + r + "/issues/1/comments", "", `{"body":7}`, "body.body is of type integer"},
		{"POST " + r + "/issues/1/comments", "", `{"body":`, "the body"},
		{"POST " + r + "/statuses/" + strings.Repeat("a", 40), "", `{"state":"fine"}`, "body.state is fine"},
		{"POST " + r + "/check-runs", "", `{"name":"x","head_sha":"y","status":"completed","conclusion":"success","output":{"title":"t","summary":"s"}}`, ""},
		{"POST " + r + "/check-runs", "", `{"name":"x","head_sha":"y","output":{"title":"t"}}`, "body.output lacks summary"},
		{"POST " + r + "/check-runs", "", `{"name":"x","head_sha":"y","actions":[{"label":"l","description":"` + strings.Repeat("d", 41) + `","identifier":"i"}]}`, "longer than 40"},
		{"POST " + r + "/releases", "", `{"tag_name":"green/1","target_commitish":"green"}`, ""},
		{"POST " + r + "/deployments", "", `{"ref":"green","task":1.5}`, "task"},
		{"POST /app/installations/7/access_tokens", "", "null", ""},
		{"POST /app/installations/7/access_tokens", "", `{"permissions":{"contents":"admin"}}`, "contents is admin"},
		{"POST " + r + "/issues/1/labels", "", `{"labels":["x"]}`, ""},
	} {
		method, path, _ := strings.Cut(tc.call, " ")
		query, err := url.ParseQuery(tc.query)
		if err != nil {
			t.Fatal(err)
		}
		switch err := d.Check(method, path, query, []byte(tc.body)); {
		case tc.want == "" && err != nil:
			t.Errorf("%v", err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s %s %s: %v, want %q", tc.call, tc.query, tc.body, err, tc.want)
		}
	}
}
