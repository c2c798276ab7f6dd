package hubtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"greenward/internal/gittest"
)

// watched takes the faults that a hub would report to its test.
type watched struct {
	testing.TB
	mu     sync.Mutex
	faults []string
}

func (w *watched) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (h *Hub) ask(t *testing.T, token, call, body string) (int, string) {
	t.Helper()
	method, path, _ := strings.Cut(call, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, h.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	var out strings.Builder
	if err := resp.Write(&out); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, out.String()
}

// A request that GitHub does not describe fails the test in which it was made,
// whatever the double answers.
func TestRequestsAreHeldAgainstTheDescription(t *testing.T) {
	w := &watched{TB: t}
	h := New(w, gittest.Bare(t), gittest.Host(t), time.Now)
	alice := h.Person("alice", 3, "write")
	h.Issue(alice, "title", "")
	if code, _ := h.ask(t, "alice-token", "POST /repos/acme/widgets/issues/1/comments", `{"body":"x"}`); code != 201 || len(w.faults) != 0 {
		t.Fatalf("answered %d, faults %v", code, w.faults)
	}
	h.ask(t, "alice-token", "POST /repos/acme/widgets/issues/1/comments", `{"body":"x","colour":"red"}`)
	if len(w.faults) != 1 || !strings.Contains(w.faults[0], "body.colour is not described") {
		t.Fatalf("faults: %v", w.faults)
	}
}

// Deliveries are lost, come twice, late, in another order, or with a foreign signature,
// as a fault says; connections are cut, and answers lost after the work was done.
func TestFaults(t *testing.T) {
	h := New(t, gittest.Bare(t), gittest.Host(t), time.Now)
	got := make(chan string, 10)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("X-GitHub-Event") + " " + r.Header.Get("X-GitHub-Delivery")
		w.WriteHeader(http.StatusAccepted)
	}))
	defer app.Close()
	h.Hook(app.URL, "s3cr3t")
	alice := h.Person("alice", 3, "write")
	n := h.Issue(alice, "title", "")
	h.FailHook(HookFault{Event: "issue_comment", Mode: "drop", Times: 1})
	h.Comment(alice, n, "lost")
	h.FailHook(HookFault{Event: "issue_comment", Mode: "duplicate", Times: 1})
	h.Comment(alice, n, "twice")
	if first, second := <-got, <-got; first != second || !strings.HasPrefix(first, "issue_comment guid-") {
		t.Fatalf("delivered %q and %q", first, second)
	}
	h.FailHook(HookFault{Event: "issue_comment", Mode: "hold", Times: 1})
	h.Comment(alice, n, "late")
	h.Label(alice, n, "x")
	if first := <-got; !strings.HasPrefix(first, "issues ") {
		t.Fatalf("delivered %q before the label", first)
	}
	h.Release()
	if late := <-got; !strings.HasPrefix(late, "issue_comment ") {
		t.Fatalf("delivered %q late", late)
	}
	h.Fail(Fault{Match: "POST .*/comments", Kind: "cut", Times: 1})
	h.Fail(Fault{Match: "POST .*/comments", Kind: "lost-answer", Times: 1})
	for _, text := range []string{"cut", "done"} {
		if code, _ := h.ask(t, "robot-token", "POST /repos/acme/widgets/issues/1/comments", `{"body":"`+text+`"}`); code != 0 {
			t.Errorf("%s was answered %d", text, code)
		}
	}
	if list := h.Comments(n); len(list) != 1 || list[0].Body != "done" {
		t.Errorf("comments: %+v", list)
	}
}

// git reads and pushes over HTTP; what a base branch contains then is shown as merged.
func TestGitOverHTTP(t *testing.T) {
	dir := gittest.Bare(t)
	gittest.Commit(t, dir, "main", "base", map[string]string{"a": "1"})
	h := New(t, dir, gittest.Host(t), time.Now)
	h.Person("alice", 3, "write")
	h.Person("mallory", 5, "read")
	gittest.Git(t, dir, "update-ref", "refs/heads/topic", "refs/heads/main")
	gittest.Commit(t, dir, "topic", "work", map[string]string{"b": "1"})
	if code, text := h.ask(t, "alice-token", "POST /repos/acme/widgets/pulls", `{"title":"t","head":"topic","base":"main"}`); code != 201 {
		t.Fatalf("answered %d %s", code, text)
	}
	clone := t.TempDir()
	address := strings.Replace(h.URL(), "http://", "http://alice:alice-token@", 1) + "/acme/widgets.git"
	gittest.Git(t, clone, "clone", "-q", address, ".")
	gittest.Git(t, clone, "push", "-q", "origin", "origin/topic:refs/heads/main")
	if !h.Merged(1) {
		t.Error("the pull request is not shown as merged")
	}
	if state, _ := h.State(1); state != "closed" {
		t.Errorf("it is %s", state)
	}
	for token, want := range map[string]int{"mallory-token": http.StatusForbidden, "nobody": http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL()+"/acme/widgets.git/info/refs?service=git-receive-pack", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("x", token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", token, resp.StatusCode, want)
		}
	}
}
