package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greenward/internal/gittest"
	"greenward/internal/proc"
	"greenward/workflows"
)

// network is hosts of one machine that reach each other by a bridge alone: each is
// a network namespace, and so is the bridge, so that the machine's own network is
// not touched.
type network struct {
	*testing.T
	name  string
	hosts []string
}

// newNetwork connects hosts 1 to n with the addresses 10.77.0.1 to 10.77.0.n; where
// the machine does not allow that, the test is skipped, and says why.
func newNetwork(t *testing.T, hosts ...string) *network {
	t.Helper()
	n := &network{T: t, name: fmt.Sprintf("gw%d", os.Getpid()), hosts: hosts}
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: hosts in network namespaces want root")
	}
	if _, out, err := n.ip("netns", "list"); err == nil { // what a killed test left goes now
		for one := range strings.FieldsSeq(out) {
			pid, _, _ := strings.Cut(strings.TrimPrefix(one, "gw"), "-")
			if _, err := os.Stat("/proc/" + pid); strings.HasPrefix(one, "gw") && pid != "" && strings.Trim(pid, "0123456789") == "" && os.IsNotExist(err) {
				n.must("netns", "del", one)
			}
		}
	}
	if result, out, err := n.ip("netns", "add", n.ns("net")); err != nil || !result.OK() {
		t.Skipf("NOT TESTED: this machine allows no network namespaces: %v %v %s", err, result, out)
	}
	t.Cleanup(func() { n.must("netns", "del", n.ns("net")) })
	if result, out, err := n.ip("-n", n.ns("net"), "link", "add", "br0", "type", "bridge"); err != nil || !result.OK() {
		t.Skipf("NOT TESTED: this machine allows no bridge: %v %v %s", err, result, out)
	}
	n.must("-n", n.ns("net"), "link", "set", "br0", "up")
	for i, host := range hosts {
		n.must("netns", "add", n.ns(host))
		t.Cleanup(func() { n.must("netns", "del", n.ns(host)) })
		n.must("-n", n.ns(host), "link", "set", "lo", "up")
		n.must("-n", n.ns("net"), "link", "add", "to-"+host, "type", "veth", "peer", "name", "eth0", "netns", n.ns(host))
		n.must("-n", n.ns("net"), "link", "set", "to-"+host, "master", "br0", "up")
		n.must("-n", n.ns(host), "addr", "add", fmt.Sprintf("10.77.0.%d/24", i+1), "dev", "eth0")
		n.must("-n", n.ns(host), "link", "set", "eth0", "up")
	}
	return n
}

func (n *network) ns(host string) string { return n.name + "-" + host }

func (n *network) ip(args ...string) (proc.Result, string, error) {
	var out bytes.Buffer
	result, err := proc.Run(context.WithoutCancel(n.Context()), proc.Command{Name: "ip", Args: args, Dir: os.TempDir(), Stdout: &out, Stderr: &out, Timeout: 20 * time.Second, Env: gittest.Host(n.T).Only("PATH")})
	return result, out.String(), err
}

func (n *network) must(args ...string) {
	n.Helper()
	if result, out, err := n.ip(args...); err != nil || !result.OK() {
		n.Errorf("ip %s: %v %v %s", strings.Join(args, " "), err, result, out)
	}
}

// on is the command line of a program on a host.
func (n *network) on(host, program string, args ...string) (string, []string) {
	return "nsenter", append([]string{"--net=/run/netns/" + n.ns(host), "--", program}, args...)
}

// cut takes a host's cable out, and plugs it in again.
func (n *network) cut(host string)  { n.must("-n", n.ns("net"), "link", "set", "to-"+host, "down") }
func (n *network) join(host string) { n.must("-n", n.ns("net"), "link", "set", "to-"+host, "up") }

// start starts a program on a host.
func (p *killPlace) start(n *network, host string, env proc.Host, program string, args ...string) *process {
	p.Helper()
	name, argv := n.on(host, program, args...)
	one := p.started(env, name, argv...)
	return one
}

// TestS2ThreeHostsAPartitionAndAHostLost pursues a goal on a server and three hosts,
// each in a network namespace of its own; their one channel is git over http. In
// the middle one host is cut off and comes back, and another one is lost for good.
func TestS2ThreeHostsAPartitionAndAHostLost(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, "hub", "one", "two", "three")
	p := newKillPlace(t)
	model := filepath.Join(filepath.Dir(p.program), "scripted-model")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, model); err != nil {
		t.Fatal(err)
	}
	p.host = p.host.With("OPENAI_BASE_URL=http://127.0.0.1:8000/v1")
	run := workflows.Slug(killGoal)
	gittest.Commit(t, p.hub, "main", "fewer workers at the hub", map[string]string{
		".greenward.yml": "checks: [{name: ok, run: test ! -e broken}]\ngreen: {schedule: '@every 1s', repair: [revert]}\nagents: {workers: 1, model: scripted}\n",
	})
	git := func(args ...string) string { t.Helper(); return gittest.Git(t, p.hub, args...) }
	for _, host := range n.hosts {
		p.start(n, host, p.host, model, "127.0.0.1:8000")
	}
	server := p.start(n, "hub", p.host.With("GREENWARD_WORKER_TOKEN=w-token"), p.program, "-C", p.hub, "serve", "--listen", "10.77.0.1:8080")
	reaches := func(host string) bool {
		name, argv := n.on(host, "git", "ls-remote", "http://"+host+":w-token@10.77.0.1:8080/hub.git", "refs/heads/main")
		result, err := proc.Run(t.Context(), proc.Command{Name: name, Args: argv, Dir: t.TempDir(), Timeout: 2 * time.Second, Env: p.host.Only("PATH", "HOME")})
		return err == nil && result.OK()
	}
	for !reaches("one") {
		p.alive(server)
	}
	far := map[string]*process{}
	for _, name := range n.hosts[1:] {
		far[name] = p.start(n, name, p.host.With("GREENWARD_HUB_TOKEN="+name+":w-token", "XDG_CACHE_HOME="+unmounted(t, t.TempDir())),
			p.program, "work", "--hub", "http://10.77.0.1:8080/hub.git", "--workers", "2", "--model", "scripted")
	}
	gittest.Commit(t, p.hub, "main", "goal: "+run+"\n\nRun: "+run, map[string]string{"tasks/" + run + "/GOAL.md": "# Goal\n\n" + killGoal + "\n"})
	for holders := ""; !strings.Contains(holders, "Holder: one-") || !strings.Contains(holders, "Holder: two-"); {
		p.alive(server, far["one"], far["two"], far["three"])
		if holders = git("for-each-ref", "--format=%(contents)", "refs/greenward/claims/"); p.handedOff("") > len(killTasks()) {
			t.Fatal("the goal was reached before two hosts were at work at once")
		}
	}
	n.cut("one")
	far["two"].Kill()
	<-far["two"].ended
	if reaches("one") {
		t.Fatal("a host that was cut off reaches the hub")
	}
	for before := p.handedOff(""); p.handedOff("") < min(before+2, len(killTasks())); { // the others go on meanwhile
		p.alive(server, far["three"])
	}
	n.join("one")
	for git("ls-tree", "-r", "--name-only", "main", "tasks/")+git("for-each-ref", "refs/heads/queue/", "refs/greenward/claims/") != "" {
		p.alive(server, far["one"], far["three"])
	}
	p.settled(server)
	p.holds()
	if result, out := p.command("fsck"); !result.OK() {
		t.Errorf("fsck: %s", out)
	}
	t.Logf("hand-offs by the hub %d, by one %d, by two %d, by three %d", p.handedOff("worker-"), p.handedOff("one-"), p.handedOff("two-"), p.handedOff("three-"))
}

// handedOff is how many tasks agents of that prefix have ended.
func (p *killPlace) handedOff(prefix string) int {
	p.Helper()
	n := 0
	for agent := range strings.FieldsSeq(gittest.Git(p.T, p.hub, "log", "main", "--format=%(trailers:key=Agent,valueonly)")) {
		if strings.HasPrefix(agent, prefix) {
			n++
		}
	}
	return n
}
