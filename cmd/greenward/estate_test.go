package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greenward/bot"
	"greenward/internal/gittest"
	"greenward/internal/hubtest"
	"greenward/internal/proc"
)

// visitor is somebody with a browser.
type visitor struct {
	*testing.T
	http *http.Client
}

func (v visitor) get(address string) (int, string) {
	v.Helper()
	r, err := http.NewRequestWithContext(v.Context(), http.MethodGet, address, nil)
	if err != nil {
		v.Fatal(err)
	}
	resp, err := v.http.Do(r)
	if err != nil {
		v.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		v.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func newVisitor(t *testing.T) visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return visitor{t, &http.Client{Jar: jar}}
}

// A repository that gets another name and becomes private under serve --github-hubs
// keeps its hub, with all that the log knows, and is shown to nobody but those who may
// read it on GitHub.
func TestRepositoryRenamedAndMadePrivate(t *testing.T) {
	t.Parallel()
	remote := gittest.Bare(t)
	gittest.Commit(t, remote, "main", "begin", map[string]string{".greenward.yml": "checks: none\n", "README.md": "widgets\n"})
	gh := hubtest.New(t, remote, gittest.Host(t), time.Now)
	alice := gh.Person("alice", 3, "write")
	gh.Person("mallory", 5, "none")
	hubs := t.TempDir()
	host := proc.NewHost(append(os.Environ(), "GREENWARD_GITHUB_URL="+gh.URL(), "GREENWARD_GITHUB_APP_ID=12345", "GREENWARD_GITHUB_PRIVATE_KEY="+gh.Key(),
		"GREENWARD_WEBHOOK_SECRET=s3cr3t", "GREENWARD_GITHUB_CLIENT_ID=Iv1.hubtest", "GREENWARD_GITHUB_CLIENT_SECRET=hush", "OPENAI_BASE_URL=", "OPENAI_API_KEY="))
	serve := begin(t, host, "serve", "--listen", "127.0.0.1:0", "--github-hubs", hubs)
	address := serve.line(t, "serving at ")
	gh.Hook(address+"/webhook", "s3cr3t")
	home := serve.line(t, "serving acme/widgets from ")

	land := func(topic string) (entry string) {
		t.Helper()
		gittest.Git(t, remote, "update-ref", "refs/heads/"+topic, "refs/heads/main")
		head := gittest.Commit(t, remote, topic, topic, map[string]string{topic: "1\n"})
		n := gh.Pull(alice, head, "main")
		f := &forge{T: t, release: func() {}}
		f.until("landing of "+topic, func() bool {
			list := gh.Comments(n)
			if len(list) == 0 || strings.Contains(list[0].Body, "not certain") {
				gh.Comment(alice, n, "bors r+ "+head[:12])
			}
			return len(list) == 1 && strings.Contains(list[0].Body, "landed as")
		})
		return fmt.Sprintf("\"pr-%d@", n)
	}
	one := land("one")
	issue := gh.Issue(alice, "a goal", "")
	gh.Label(alice, issue, "greenward")
	(&forge{T: t, release: func() {}}).until("why no run begins", func() bool {
		list := gh.Comments(issue)
		return len(list) == 1 && strings.Contains(list[0].Body, "no model is configured on this server")
	})
	stranger, mallory, reader := newVisitor(t), newVisitor(t), newVisitor(t)
	if code, page := stranger.get(address + "/r/acme/widgets/"); code != http.StatusOK || !strings.Contains(page, "Nothing waits") {
		t.Fatalf("a public repository is shown to nobody: %d %s", code, page)
	}
	if _, page := stranger.get(address + "/"); !strings.Contains(page, `href="/r/acme/widgets/"`) {
		t.Fatalf("the first page: %s", page)
	}

	gh.Known("gadgets")
	gh.Private(true)
	serve.line(t, "acme/widgets is called acme/gadgets now")
	if at := serve.line(t, "serving acme/gadgets from "); at != home {
		t.Fatalf("the hub moved from %s to %s", home, at)
	}
	two := land("two")
	log := gittest.Git(t, home, "log", "--format=%B", "refs/greenward/log/queue")
	if !strings.Contains(log, one) || !strings.Contains(log, two) {
		t.Fatalf("the log lacks one of both: %s", log)
	}
	if url := strings.TrimSpace(gittest.Git(t, home, "config", "remote.origin.url")); !strings.HasSuffix(url, "/acme/gadgets.git") {
		t.Errorf("the remote is %s", url)
	}
	gh.SignIn("mallory")
	mallory.get(address + "/login")
	gh.SignIn("alice")
	reader.get(address + "/login")
	for _, page := range []string{"/r/acme/gadgets/", "/r/acme/gadgets/badge.svg", "/r/acme/widgets/"} {
		for who, v := range map[string]visitor{"a stranger": stranger, "mallory": mallory} {
			if code, text := v.get(address + page); code != http.StatusNotFound {
				t.Errorf("%s is shown %s: %d %s", who, page, code, text)
			}
		}
	}
	if code, page := reader.get(address + "/r/acme/gadgets/"); code != http.StatusOK || !strings.Contains(page, "Nothing waits") {
		t.Errorf("alice, who may read it, is answered %d %s", code, page)
	}
	if code, page := reader.get(address + "/r/acme/gadgets/healthz"); code != http.StatusOK {
		t.Errorf("its health: %d %s", code, page)
	}
	for who, v := range map[string]visitor{"a stranger": stranger, "mallory": mallory} {
		if _, page := v.get(address + "/"); strings.Contains(page, "gadgets") {
			t.Errorf("%s is told of it: %s", who, page)
		}
	}
	if _, page := reader.get(address + "/"); !strings.Contains(page, `href="/r/acme/gadgets/"`) {
		t.Errorf("alice is not told of it: %s", page)
	}
}

// A hub stays where it is when its repository gets another name; who takes the name
// over gets another place.
func TestHouseKeepsItsPlace(t *testing.T) {
	dir := t.TempDir()
	settle := func(id int64, name, want string) {
		t.Helper()
		at, err := house(dir, bot.Repository{ID: id, Owner: "acme", Name: name})
		if err != nil || at != filepath.Join(dir, filepath.FromSlash(want)) {
			t.Fatalf("%d as %s is in %s, want %s; %v", id, name, at, want, err)
		}
		if err := os.MkdirAll(filepath.Join(at, "greenward"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "greenward", "repository"), fmt.Appendln(nil, id), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settle(1, "widgets", "acme/widgets.git")
	settle(1, "gadgets", "acme/widgets.git")
	settle(2, "widgets", "acme/widgets-2.git")
	settle(2, "widgets", "acme/widgets-2.git")
	settle(1, "gadgets", "acme/widgets.git")
	settle(3, "gadgets", "acme/gadgets.git")
}
