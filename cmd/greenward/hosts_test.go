package main

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"greenward/agents"
	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// process is one running greenward.
type process struct {
	*proc.Process
	ended    chan struct{}
	problems *bytes.Buffer
}

func (p *killPlace) process(host proc.Host, args ...string) *process {
	p.Helper()
	return p.started(host, p.program, args...)
}

// started is any program at work, ended with the test.
func (p *killPlace) started(host proc.Host, program string, args ...string) *process {
	p.Helper()
	one := &process{ended: make(chan struct{}), problems: &bytes.Buffer{}}
	var err error
	one.Process, err = proc.Start(p.Context(), proc.Command{
		Name: program, Args: args, Dir: p.TempDir(), Stderr: one.problems, Timeout: 15 * time.Minute,
		Env: host.Only("PATH", "HOME", "TMPDIR", "GOCACHE", "GOPATH", "XDG_CACHE_HOME", "OPENAI_BASE_URL", "OPENAI_API_KEY", "GREENWARD_WORKER_TOKEN", "GREENWARD_HUB_TOKEN"),
	})
	if err != nil {
		p.Fatal(err)
	}
	go func() {
		defer close(one.ended)
		if _, err := one.Wait(); err != nil {
			p.Log(err) // it was told to end
		}
	}()
	p.Cleanup(func() { one.Kill(); <-one.ended })
	return one
}

// TestS2HostsReachTheGoalOverHTTP has a server that does no work itself, and two
// hosts whose only channel is git over http with a worker's token. One host is
// lost in the middle; every task is handed off once all the same.
func TestS2HostsReachTheGoalOverHTTP(t *testing.T) {
	t.Parallel()
	p := newKillPlace(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, title := range killTasks() {
		text, err := agents.FormatTask(agents.Task{ID: "far/" + strings.ReplaceAll(title, " ", "-"), Title: title, Body: "As the title says."})
		if err != nil {
			t.Fatal(err)
		}
		files["tasks/far/"+strings.ReplaceAll(title, " ", "-")+".md"] = string(text)
	}
	gittest.Commit(t, p.hub, "main", "tasks for other hosts", files)
	git := func(args ...string) string { t.Helper(); return gittest.Git(t, p.hub, args...) }

	quiet := p.host.With("GREENWARD_WORKER_TOKEN=w-token", "OPENAI_BASE_URL=", "OPENAI_API_KEY=")
	server := p.process(quiet, "-C", p.hub, "serve", "--listen", address)
	far := func(name string) *process {
		host := p.host.With("GREENWARD_HUB_TOKEN="+name+":w-token", "XDG_CACHE_HOME="+unmounted(t, t.TempDir()))
		for {
			one := p.process(host, "work", "--hub", "http://"+address+"/hub.git", "--workers", "3")
			for {
				select {
				case <-server.ended:
					t.Fatalf("the server ended:\n%s", server.problems)
				case <-one.ended: // the server was not listening yet
				default:
					if !strings.Contains(git("for-each-ref", "--format=%(contents)", "refs/greenward/claims/"), "Holder: "+strings.ToLower(name)+"-") {
						continue
					}
					return one
				}
				break
			}
		}
	}
	one := far("host-1")
	one.Kill() // nobody releases what it holds
	<-one.ended
	two := far("Host-2") // a name as people write them
	for git("ls-tree", "-r", "--name-only", "main", "tasks/")+git("for-each-ref", "refs/heads/queue/", "refs/greenward/claims/") != "" {
		select {
		case <-server.ended:
			t.Fatalf("the server ended:\n%s", server.problems)
		case <-two.ended:
			t.Fatalf("the host ended:\n%s", two.problems)
		default:
		}
	}
	done := map[string]int{}
	for task := range strings.FieldsSeq(git("log", "main", "--format=%(trailers:key=Task,valueonly)")) {
		done[task]++
	}
	for task, n := range done {
		if n != 1 {
			t.Errorf("%s was handed off %d times", task, n)
		}
	}
	if len(done) != len(killTasks()) {
		t.Errorf("%d tasks were handed off, want %d", len(done), len(killTasks()))
	}
	for agent := range strings.FieldsSeq(git("log", "main", "--format=%(trailers:key=Agent,valueonly)")) {
		if !strings.HasPrefix(agent, "host-1-") && !strings.HasPrefix(agent, "host-2-") {
			t.Errorf("%s is no worker of another host", agent)
		}
	}
	p.settled(server) // what a promotion writes meanwhile would look torn
	if result, out := p.command("fsck"); !result.OK() {
		t.Errorf("fsck: %s", out)
	}
}

// settled waits until green is as new as main.
func (p *killPlace) settled(server *process) {
	p.Helper()
	for {
		if _, out := p.command("green", "status", "--json"); strings.Contains(out, `"behind":0`) || strings.Contains(out, `"behind": 0`) {
			return
		}
		p.alive(server)
	}
}

// alive wants programs to run still.
func (p *killPlace) alive(all ...*process) {
	p.Helper()
	for _, one := range all {
		select {
		case <-one.ended:
			p.Fatalf("a program ended:\n%s\nopen: %s\nrefs: %s", one.problems, gittest.Git(p.T, p.hub, "ls-tree", "-r", "--name-only", "main", "tasks/"), gittest.Git(p.T, p.hub, "for-each-ref", "refs/heads", "refs/greenward/claims"))
		default:
		}
	}
}
