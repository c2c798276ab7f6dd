package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"greenward/internal/gittest"
	"greenward/internal/hubtest"
	"greenward/internal/proc"
)

// forge is a GitHub with the repository acme/widgets, on which no App is installed, and
// a person alice who administers it.
type forge struct {
	*testing.T
	url     string
	app     string             // the account that the App will have
	install func()             // what the owner does on GitHub's page
	trouble func()             // makes requests and deliveries go wrong from now on
	signIn  func(login string) // somebody signs in at GitHub; nil: it has no such page
	release func()             // sends what was held back, the newest first
}

// ownForge is the double of internal/hubtest.
func ownForge(t *testing.T) *forge {
	t.Helper()
	remote := gittest.Bare(t)
	gittest.Commit(t, remote, "main", "begin", map[string]string{"README.md": "widgets\n"})
	h := hubtest.New(t, remote, gittest.Host(t), time.Now)
	h.Person("alice", 3, "admin")
	h.Installed("deleted")
	f := &forge{T: t, url: h.URL(), app: hubtest.Slug + "[bot]", install: func() { h.Installed("") }, release: h.Release, signIn: h.SignIn}
	f.trouble = func() {
		for _, one := range []hubtest.Fault{
			{Match: "^GET /repos/.*/pulls", Kind: "unavailable", Times: 1},
			{Match: "^GET /repos/.*/rules", Kind: "cut", Times: 1},
			{Match: "^POST .*/check-runs$", Kind: "lost-answer", Times: 1},
			{Match: "^POST .*/comments$", Kind: "lost-answer", Skip: 1, Times: 1},
			{Match: "^PATCH .*/comments", Kind: "secondary-limit", Times: 1, Retry: 1},
			{Match: "^PATCH .*/check-runs", Kind: "unauthorized", Times: 1},
		} {
			one.Ours = true
			h.Fail(one)
		}
		for _, one := range []hubtest.HookFault{
			{Event: "^issue_comment$", Mode: "hold", Times: 2},
			{Event: "^issue", Mode: "duplicate", Times: 3},
			{Event: "^pull_request$", Mode: "forge", Times: 1},
			{Event: "^push$", Mode: "drop", Times: 3},
			{Event: "^issues$", Mode: "drop", Times: 2},
		} {
			h.FailHook(one)
		}
	}
	return f
}

// emulated is the double of internal/hubtest/emulator, which others wrote. The
// directory that GREENWARD_EMULATOR names holds its engine; .ci/run puts it there.
func emulated(t *testing.T) *forge {
	t.Helper()
	home := os.Getenv("GREENWARD_EMULATOR")
	if home == "" {
		t.Skip("NOT RUN: GREENWARD_EMULATOR is not set; with node 20 and npm, set it to a directory for internal/hubtest/emulator/start.sh to install its engine in")
	}
	script, err := filepath.Abs("../../internal/hubtest/emulator/start.sh")
	if err != nil {
		t.Fatal(err)
	}
	said, to := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := proc.Run(ctx, proc.Command{Name: script, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GHEMU_HOME=" + home}, Stdout: to, Stderr: t.Output()})
		_ = to.Close() // nobody reads on
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		<-ended // it ends because it was told to
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		address, ok := strings.CutPrefix(lines.Text(), "GHEMU_URL=")
		if !ok {
			continue
		}
		go func() { _, _ = io.Copy(io.Discard, said) }() // it must not wait for us
		f := &forge{T: t, url: hubtest.Front(t, address), app: "greenward[bot]"}
		f.install = func() {
			f.as("", "POST", "/_harness/installations", `{"app":"greenward","account":"acme","action":"created"}`, nil)
		}
		f.release = func() { f.as("", "POST", "/_harness/webhooks/release", `{"order":"reverse"}`, nil) }
		f.trouble = func() {
			for _, fault := range []string{
				`{"match":"^GET /repos/acme/widgets/rules","times":1,"status":503}`,
				`{"match":"^POST .*/check-runs$","times":1,"status":502,"apply":true}`,
				`{"match":"^PATCH .*/check-runs","times":1,"reset":true,"apply":true}`,
				`{"match":"^GET .*/collaborators/","times":1,"reset":true}`,
				`{"match":"^PATCH .*/issues/comments","times":1,"kind":"secondary","retry_after":1}`,
				`{"match":"^GET .*/commits/","times":1,"kind":"primary","retry_after":2}`,
			} {
				f.as("", "POST", "/_harness/faults/api", fault, nil)
			}
			for _, fault := range []string{
				`{"event":"^issue_comment","mode":"hold","times":2}`, `{"event":"^issues","mode":"duplicate","times":3}`,
				`{"event":"^pull_request","mode":"corrupt_signature","times":1}`, `{"event":"^push","mode":"drop","times":3}`,
			} {
				f.as("", "POST", "/_harness/faults/webhook", fault, nil)
			}
		}
		return f
	}
	t.Fatalf("the emulator did not start: %v", <-ended)
	return nil
}

// as does something on GitHub as a person.
func (f *forge) as(login, method, path, body string, v any) {
	f.Helper()
	r, err := http.NewRequestWithContext(f.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if login != "" {
		r.Header.Set("Authorization", "Bearer "+login+"-token")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		f.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.Body.Close() != nil || resp.StatusCode > 299 {
		f.Fatalf("%s %s: %s %s %v", method, path, resp.Status, data, err)
	}
	if v != nil {
		if err := json.Unmarshal(data, v); err != nil {
			f.Fatalf("%s %s: %v in %s", method, path, err, data)
		}
	}
}

const widgets = "/api/v3/repos/acme/widgets"

// said is the App's one comment on an issue, or "".
func (f *forge) said(number int) string {
	f.Helper()
	var list []struct {
		Body string `json:"body"`
		User struct {
			Login string `json:"login"`
		} `json:"user"`
	}
	f.as("alice", "GET", fmt.Sprintf("%s/issues/%d/comments?per_page=100", widgets, number), "", &list)
	var own []string
	for _, c := range list {
		if c.User.Login == f.app {
			own = append(own, c.Body)
		}
	}
	if len(own) > 1 {
		f.Fatalf("the App wrote %d comments on #%d: %q", len(own), number, own)
	}
	return strings.Join(own, "")
}

// until looks again and again: the other side is a process of its own, and tells nothing.
func (f *forge) until(what string, seen func() bool) {
	f.Helper()
	look, late := time.NewTicker(200*time.Millisecond), time.After(4*time.Minute)
	defer look.Stop()
	for !seen() {
		f.release()
		select {
		case <-late:
			f.Fatalf("never seen: %s", what)
		case <-look.C:
		}
	}
	f.Logf("seen: %s", what)
}

// served is a program of ours under way.
type served struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed with the next line
}

// line waits for a line of the program and returns what follows the text in it.
func (s *served) line(t *testing.T, text string) string {
	t.Helper()
	late := time.After(time.Minute)
	for from := 0; ; {
		s.mu.Lock()
		lines, more := s.lines, s.more
		s.mu.Unlock()
		for ; from < len(lines); from++ {
			if _, rest, ok := strings.Cut(lines[from], text); ok {
				return rest
			}
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("greenward never said %q but\n%s", text, strings.Join(lines, "\n"))
		}
	}
}

// begin runs a command of ours until the test ends.
func begin(t *testing.T, host proc.Host, args ...string) *served {
	t.Helper()
	said, to := io.Pipe()
	s := &served{more: make(chan struct{})}
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: to, now: time.Now, host: host}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- a.main(ctx, args)
		_ = to.Close() // nobody reads on
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			t.Log(lines.Text())
			s.mu.Lock()
			s.lines = append(s.lines, lines.Text())
			close(s.more)
			s.more = make(chan struct{})
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != exitInterrupted {
			t.Errorf("%v ended with %d", args, code)
		}
		<-read
	})
	return s
}

// makeApp is what a browser does with the address that serve printed.
func (f *forge) makeApp(link string) {
	f.Helper()
	page := fetched(f.T, link)
	find := func(expr string) string {
		m := regexp.MustCompile(expr).FindStringSubmatch(page)
		if m == nil {
			f.Fatalf("%s is not in %s", expr, page)
		}
		return html.UnescapeString(m[1])
	}
	form := url.Values{"manifest": {find(`name="manifest" value="([^"]*)"`)}}
	r, err := http.NewRequestWithContext(f.Context(), http.MethodPost, find(`action="([^"]*)"`), strings.NewReader(form.Encode()))
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	browser := &http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.Contains(r.URL.Path, "/installations/new") {
			return http.ErrUseLastResponse // GitHub's page, on which the owner clicks
		}
		return nil
	}}
	resp, err := browser.Do(r)
	if err != nil {
		f.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusSeeOther {
		f.Fatalf("the App was not made: %s", resp.Status)
	}
}

// steer signs in on the dashboard and freezes the queue there.
func (f *forge) steer(address string) {
	f.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		f.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	get := func(r *http.Request, err error) (int, string) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
		resp, err := browser.Do(r)
		if err != nil {
			f.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			f.Fatal(err)
		}
		return resp.StatusCode, string(data)
	}
	here := address + "/r/acme/widgets/"
	f.signIn("alice")
	_, page := get(http.NewRequestWithContext(f.Context(), http.MethodGet, address+"/login?next=/r/acme/widgets/", nil))
	m := regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(page)
	if m == nil {
		f.Fatalf("not signed in:\n%s", page)
	}
	r, err := http.NewRequestWithContext(f.Context(), http.MethodPost, here+"act", strings.NewReader("verb=freeze&reason=release+day&token="+m[1]))
	if err == nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if code, page := get(r, err); code != http.StatusOK || !strings.Contains(page, "The queue is frozen: release day") {
		f.Fatalf("answered %d:\n%s", code, page)
	}
}

// examine is the doctor's look at a hub of serve, as its operator asks for it: it enters
// GitHub as the App, and proves that deliveries come.
func examine(t *testing.T, host proc.Host, hub string) {
	t.Helper()
	said := &strings.Builder{}
	a := &app{stdin: strings.NewReader(""), stdout: said, stderr: t.Output(), now: time.Now, host: host}
	code := a.main(t.Context(), []string{"-C", hub, "doctor"})
	lines := strings.Join(strings.Fields(said.String()), " ")
	for _, want := range []string{"ok remote ", "ok github app ", "ok github permissions all that is needed", "ok github branch main has no rule", "ok github webhook goes to http", "deliveries were taken"} {
		if !strings.Contains(lines, want) {
			t.Errorf("the doctor, who ended with %d, lacks %q:\n%s", code, want, said)
		}
	}
}

func fetched(t *testing.T, address string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s %v", address, resp.Status, data, err)
	}
	return string(data)
}

// The way of a new user, over real HTTP and by real git: serve, make the App by the
// manifest flow, label an issue and watch its one comment, land a pull request with
// bors r+, pull green, verify it. On both doubles, and once more on each with requests
// that fail, are cut or lose their answers, with both kinds of limits, and with
// deliveries that are lost, doubled, reordered or wrongly signed. With -args all; else
// with trouble on the emulator, and without on the other.
func TestNewUserFromSetUpToVerifiedGreen(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *forge{"hubtest": ownForge, "emulator": emulated} {
		for _, troubled := range []bool{false, true} {
			if flag.Arg(0) != "all" && troubled != (name == "emulator") {
				continue
			}
			t.Run(fmt.Sprintf("%s troubled=%v", name, troubled), func(t *testing.T) {
				t.Parallel()
				f := open(t)
				if !troubled {
					f.trouble = func() {}
				}
				newUser(t, f)
			})
		}
	}
}

// pulled pulls green as a person does, who pulls again where a double's git cuts off
// an answer while green is being pushed to it.
func pulled(t *testing.T, host proc.Host, work string) bool {
	t.Helper()
	said := &strings.Builder{}
	result, err := proc.Run(t.Context(), proc.Command{
		Name: "git", Args: []string{"pull", "-q", "--ff-only", "--no-rebase", "origin", "green"}, Dir: work, Env: host.Only("PATH", "HOME"), Stderr: said, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !result.OK() {
		t.Logf("pull: %s: %s", result, said)
	}
	return result.OK()
}

func newUser(t *testing.T, f *forge) {
	t.Helper()
	shop := &shop{T: t}
	host := proc.NewHost(append(os.Environ(), "GREENWARD_GITHUB_URL="+f.url, "OPENAI_BASE_URL="+shop.model(), "OPENAI_API_KEY=sk-test-key", "GIT_TERMINAL_PROMPT=0"))
	work := t.TempDir()
	gittest.Git(t, work, "clone", "-q", strings.Replace(f.url, "http://", "http://alice:alice-token@", 1)+"/acme/widgets.git", ".")
	commit := func(branch string, files map[string]string) {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		gittest.Git(t, work, "add", "-A")
		gittest.Git(t, work, "commit", "-qm", "work of alice")
		gittest.Git(t, work, "push", "-q", "origin", "HEAD:refs/heads/"+branch)
	}
	commit("main", map[string]string{
		".greenward.yml": "checks:\n  - {name: unbroken, run: \"! test -e broken\"}\ngreen: {schedule: '@every 2s', repair: [revert]}\nagents: {workers: 2, model: scripted}\n",
		"list.txt":       "begin\nend\n",
	})

	hubs := t.TempDir()
	serve := begin(t, host, "serve", "--listen", "127.0.0.1:0", "--github-hubs", hubs)
	f.makeApp(serve.line(t, "to make one, open "))
	if info, err := os.Stat(filepath.Join(hubs, "app.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the App's key: %v %v", info, err)
	}
	address := serve.line(t, "serving at ")
	f.install()
	serve.line(t, "serving acme/widgets from ")
	f.trouble()

	var issue, pull struct {
		Number int `json:"number"`
	}
	f.as("alice", "POST", widgets+"/issues", `{"title":"`+killGoal+`","body":"As the title says."}`, &issue)
	f.as("alice", "POST", fmt.Sprintf("%s/issues/%d/labels", widgets, issue.Number), `{"labels":["greenward"]}`, nil)
	f.until("the comment on the issue", func() bool { return strings.Contains(f.said(issue.Number), "A run was started") })

	gittest.Git(t, work, "checkout", "-q", "-b", "topic")
	commit("topic", map[string]string{"new.txt": "1\n"})
	f.as("alice", "POST", widgets+"/pulls", `{"title":"one more","head":"topic","base":"main"}`, &pull)
	var asked time.Time
	f.until("the landing", func() bool {
		// A request within the second in which the bot saw the head first is to be made again.
		if said := f.said(pull.Number); strings.Contains(said, "landed as") {
			return true
		} else if asked.IsZero() || strings.Contains(said, "It is not certain") && time.Since(asked) > 3*time.Second {
			f.as("alice", "POST", fmt.Sprintf("%s/issues/%d/comments", widgets, pull.Number), `{"body":"bors r+"}`, nil)
			asked = time.Now()
		}
		return false
	})
	f.until("the pull request as merged", func() bool {
		var v struct {
			Merged bool `json:"merged"`
		}
		f.as("alice", "GET", fmt.Sprintf("%s/pulls/%d", widgets, pull.Number), "", &v)
		return v.Merged
	})
	f.until("the end of the run", func() bool { return strings.Contains(f.said(issue.Number), "**done**") })

	gittest.Git(t, work, "checkout", "-q", "main")
	f.until("green with the pull request", func() bool {
		if gittest.Git(t, work, "ls-remote", "origin", "refs/heads/green") == "" {
			return false
		}
		if !pulled(t, host, work) {
			return false
		}
		_, err := os.Stat(filepath.Join(work, "new.txt"))
		return err == nil
	})
	var status struct {
		State    string `json:"state"`
		Statuses []struct {
			Context string `json:"context"`
			State   string `json:"state"`
		} `json:"statuses"`
	}
	f.until("the status on green", func() bool {
		if !pulled(t, host, work) { // it is told of the newest
			return false
		}
		f.as("alice", "GET", widgets+"/commits/"+gittest.Git(t, work, "rev-parse", "HEAD")+"/status", "", &status)
		return len(status.Statuses) == 1 && status.Statuses[0].Context == "greenward/green" && status.Statuses[0].State == "success"
	})
	verify := &strings.Builder{}
	a := &app{stdin: strings.NewReader(""), stdout: verify, stderr: t.Output(), now: time.Now, host: host}
	if code := a.main(t.Context(), []string{"-C", work, "green", "verify", "--json"}); code != exitDone || !strings.Contains(verify.String(), `"valid":true`) {
		t.Fatalf("green verify ended with %d: %s", code, verify)
	}
	if f.signIn != nil {
		f.steer(address)
		examine(t, host, filepath.Join(hubs, "acme", "widgets.git"))
	}
	if badge := fetched(t, address+"/r/acme/widgets/badge.svg"); !strings.Contains(badge, "green: ") {
		t.Errorf("the badge: %s", badge)
	}
	if page := fetched(t, address+"/r/acme/widgets/"); !strings.Contains(page, "Last promotions") {
		t.Errorf("the page: %s", page)
	}
}
