package cell

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"greenward/internal/proc"
)

// room is a cell with sentinels around it: what must not be reached is made by
// the test itself.
type room struct {
	*testing.T
	cell          *Cell
	dir, outside  string // the workspace; a directory beside it
	person, inner string // a home with secrets; the path of the workspace inside
	env           []string
}

func host() proc.Host { return proc.NewHost(os.Environ()) }

// sandboxed opens a cell in a sandbox. Destructive commands run there or not at all.
func sandboxed(t *testing.T, l Limits, change func(*Place)) *room {
	t.Helper()
	cells, err := New(t.Context(), Options{Host: host(), Limits: l})
	if err != nil {
		t.Fatal(err)
	}
	if !cells.Sandboxed() {
		t.Skipf("no sandbox here, and this does not run bare: %s", cells)
	}
	return open(t, cells, change)
}

func open(t *testing.T, cells *Cells, change func(*Place)) *room {
	t.Helper()
	top := t.TempDir()
	r := &room{T: t, dir: filepath.Join(top, "work"), outside: filepath.Join(top, "outside"), person: filepath.Join(top, "person"), inner: "/workspace"}
	for name, text := range map[string]string{
		"work/file": "mine\n", "outside/sentinel": "untouched\n", "person/.ssh/id_ed25519": "KEY\n", "person/.config/tool/auth.json": "LENT\n", "person/.netrc": "KEY\n",
	} {
		path := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r.env = append(host().Only("PATH"), "HOME="+r.person, "LANG=C.UTF-8")
	place := Place{Dir: r.dir, Seen: r.inner, Scratch: filepath.Join(top, "scratch"), Person: r.person, Env: r.env}
	if change != nil {
		change(&place)
	}
	var err error
	if r.cell, err = cells.Open(place); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.cell.Close(); err != nil {
			t.Error(err)
		}
		if data, err := os.ReadFile(filepath.Join(r.outside, "sentinel")); err != nil || string(data) != "untouched\n" {
			t.Errorf("the sentinel: %q, %v", data, err)
		}
		if data, err := os.ReadFile(filepath.Join(r.person, ".ssh/id_ed25519")); err != nil || string(data) != "KEY\n" {
			t.Errorf("the key: %q, %v", data, err)
		}
	})
	return r
}

// sh runs a script in the cell.
func (r *room) sh(script string) (string, proc.Result) {
	r.Helper()
	out := proc.NewCapture(1<<16, 1<<16, nil)
	result, err := r.cell.Run(r.Context(), proc.Command{Name: "sh", Args: []string{"-c", script}, Dir: r.dir, Env: r.env, Stdout: out, Stderr: out, Timeout: time.Minute})
	if err != nil {
		r.Fatal(err)
	}
	return strings.TrimSpace(out.String()), result
}

func (r *room) wants(script, want string) {
	r.Helper()
	if got, result := r.sh(script); got != want {
		r.Errorf("%s: got %q (%s), want %q", script, got, result, want)
	}
}

func TestTheWorkspaceIsSeenAtOnePath(t *testing.T) {
	t.Parallel()
	r := sandboxed(t, Limits{}, nil)
	r.wants("pwd; echo $PWD; echo $HOME; echo $TMPDIR; cat file; echo new >made; git --version >/dev/null && echo git", "/workspace\n/workspace\n/home/agent\n/tmp\nmine\ngit")
	if data, err := os.ReadFile(filepath.Join(r.dir, "made")); err != nil || string(data) != "new\n" {
		t.Errorf("%q, %v", data, err)
	}
	// Home and /tmp last from command to command.
	r.wants("echo a >~/kept; echo b >/tmp/kept", "")
	r.wants("cat ~/kept /tmp/kept", "a\nb")
}

// Writing outside of the workspace, and reading what is nobody's business, fails,
// by whatever way.
func TestNothingElseIsReached(t *testing.T) {
	t.Parallel()
	r := sandboxed(t, Limits{}, nil)
	for script, want := range map[string]string{
		"{ echo x >" + r.outside + "/sentinel; } 2>/dev/null || echo no":                    "no",
		"cat " + r.outside + "/sentinel 2>/dev/null || echo no":                             "no",
		"cat " + r.person + "/.ssh/id_ed25519 2>/dev/null || echo no":                       "no",
		"cat ~/.ssh/id_ed25519 ~/.netrc 2>/dev/null || echo no":                             "no",
		"ln -s " + r.outside + "/sentinel link; cat link 2>/dev/null || echo no":            "no",
		"touch /usr/x /etc/x /x 2>/dev/null; ls -d /usr/x /etc/x /x 2>/dev/null || echo no": "no",
		"cat /etc/shadow 2>/dev/null || echo no":                                            "no",
		"cat /proc/" + strconv.Itoa(os.Getpid()) + "/environ 2>/dev/null || echo no":        "no",
		"for f in /proc/[a-z]*; do [ -h $f ] || [ -c $f ] || [ ! -w $f ] || echo $f; done; find /proc/sys /proc/irq /proc/fs /proc/sysrq-trigger -type f -writable 2>/dev/null | head -1": "",
		"ls /sys/fs/cgroup 2>/dev/null || echo no":                                                               "no",
		"mount -t tmpfs x /workspace 2>/dev/null || echo no":                                                     "no",
		"grep NoNewPrivs /proc/self/status | tr -d '\t'":                                                         "NoNewPrivs:1",
		"ulimit -c; ulimit -c 1 2>/dev/null || echo no":                                                          "0\nno",
		"(: </dev/tty) 2>/dev/null || echo no":                                                                   "no",
		"echo -900 2>/dev/null >/proc/self/oom_score_adj || echo no":                                             "no",
		"ls /dev | tr '\n' ' '":                                                                                  "core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero",
		"chroot / true 2>/dev/null || echo no":                                                                   "no",
		"mknod disk b 259 0 2>/dev/null || echo no":                                                              "no",
		"cat /dev/vda /dev/sda /dev/mem 2>/dev/null | head -c 1 | wc -c":                                         "0",
		"(rm -rf / || true) 2>/dev/null; rm -rf --no-preserve-root / 2>/dev/null; ls /usr/bin | head -1 | wc -l": "1",
	} {
		r.wants(script, want)
	}
	if _, err := os.Stat(r.dir); err != nil {
		t.Errorf("the directory of the workspace: %v", err)
	}
}

// A17: killing everybody, by name or by number, reaches nobody outside.
func TestA17KillingReachesNobodyOutside(t *testing.T) {
	t.Parallel()
	r := sandboxed(t, Limits{}, nil)
	sentinel, err := proc.Start(t.Context(), proc.Command{Name: "sleep", Args: []string{"3333"}, Env: r.env, Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	pid := sentinel.Pid()
	for _, script := range []string{
		"kill -9 -1; sleep 1", "pkill -9 sleep; pkill -9 -f greenward; killall -9 sleep; true",
		"kill -9 " + strconv.Itoa(pid), "kill -9 " + strconv.Itoa(os.Getpid()), "for p in /proc/[0-9]*; do kill -9 ${p#/proc/}; done",
	} {
		_, _ = r.sh(script)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the sentinel is gone: %v", err)
	}
	sentinel.Kill()
	if result, err := sentinel.Wait(); err != nil || result.Signal == "" {
		t.Errorf("the sentinel ended by itself: %v, %v", result, err)
	}
	r.wants("ps -e 2>/dev/null | wc -l >/dev/null; echo $$ | wc -c | xargs test 4 -ge && echo few", "few")
}

// A15: what left its session and its environment ends with the command.
func TestA15NothingOutlivesACommand(t *testing.T) {
	t.Parallel()
	r := sandboxed(t, Limits{}, nil)
	began := time.Now()
	_, result := r.sh(`env -i setsid sh -c 'echo up >/workspace/up; sleep 4444' >/dev/null 2>&1 & until [ -s up ]; do sleep 0.01; done`)
	if !result.OK() || time.Since(began) > 30*time.Second {
		t.Errorf("%s after %s", result, time.Since(began))
	}
	left, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range left {
		if data, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(data), "sleep\x004444\x00") {
			t.Errorf("%s is still there", file)
		}
	}
	// Past the deadline too.
	r.wants("echo still fine", "still fine")
}

func TestTheNetworkIsOnesOwn(t *testing.T) {
	t.Parallel()
	r := sandboxed(t, Limits{}, nil)
	r.wants("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '", "lo")
	open := sandboxed(t, Limits{}, func(p *Place) { p.Network = true })
	mine, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	open.wants("wc -l </proc/net/dev", strconv.Itoa(strings.Count(string(mine), "\n")))
}

func TestWhatIsLentIsReadOnly(t *testing.T) {
	t.Parallel()
	r := sandboxed(t, Limits{}, func(p *Place) { p.Home = []string{".config/tool/auth.json", "../outside", ".absent"} })
	r.wants("cat ~/.config/tool/auth.json; echo x 2>/dev/null >>~/.config/tool/auth.json || echo no; ls ~/.ssh ~/../outside 2>/dev/null || echo none", "LENT\nno\nnone")
	plain, err := New(t.Context(), Options{Host: host(), Want: Off})
	if err != nil {
		t.Fatal(err)
	}
	bare := open(t, plain, func(p *Place) { p.Home = []string{".config/tool/auth.json"} })
	bare.wants("cat ~/.config/tool/auth.json; pwd", "LENT\n"+bare.dir)
}

// Files of a cell have a greatest size, in a sandbox or not.
func TestS55WhatAnAgentWritesIsBounded(t *testing.T) {
	t.Parallel()
	for _, want := range []string{Auto, Off} {
		cells, err := New(t.Context(), Options{Host: host(), Want: want, Limits: Limits{FileSize: 1 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, cells, nil)
		_, result := r.sh("head -c 3000000 /dev/zero >big; exit $?")
		info, err := os.Stat(filepath.Join(r.dir, "big"))
		if err != nil || info.Size() > 1<<20 || result.OK() {
			t.Errorf("%s: %v, %v, %v", want, info, err, result)
		}
	}
}

// A fork storm and a glutton are stopped inside; the bound is set before either
// runs.
func TestA14StormsStayInside(t *testing.T) {
	t.Parallel()
	r := sandboxed(t, Limits{Limits: proc.Limits{Memory: 64 << 20, Processes: 40}}, nil)
	if !slices.Contains(r.cell.group.Holds(), "processes") || !slices.Contains(r.cell.group.Holds(), "memory") {
		t.Skipf("no bound to stop a storm here, and it does not run without: %v", r.cell.group.Holds())
	}
	_, result := r.sh("head -c 300000000 /dev/zero | tail")
	if !result.OutOfMemory {
		t.Errorf("a glutton: %+v", result)
	}
	_, result = r.sh("f() { f & f & }; f 2>/dev/null; sleep 0.2; exit 7")
	if result.OK() {
		t.Errorf("a storm: %+v", result)
	}
	r.wants("echo still fine", "still fine")
}

// What the shell of a cell says is what a bare one says.
func TestACellIsAShell(t *testing.T) {
	t.Parallel()
	for _, want := range []string{Auto, Off} {
		cells, err := New(t.Context(), Options{Host: host(), Want: want, Limits: Limits{FileSize: 1 << 30}})
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, cells, nil)
		for script, code := range map[string]int{
			"exit 3": 3, "false": 1, "echo a; (exit 4)": 4, "# nothing\n\ntrue": 0, "kill -9 $$": 137, "if": 2, "set -e; false; exit 0": 1, "echo \"$1$#\" | grep -q '^0$'": 0,
		} {
			if got, result := r.sh(script); result.Code != code {
				t.Errorf("%s: %q exits %d, want %d: %s", want, script, result.Code, code, got)
			}
		}
		result, err := r.cell.Run(t.Context(), proc.Command{Name: "test", Args: []string{"a b", "=", "a b"}, Env: r.env})
		if err != nil || !result.OK() {
			t.Errorf("%s: arguments: %v, %v", want, result, err)
		}
	}
}

func TestOnIsRefusedWithoutASandbox(t *testing.T) {
	t.Parallel()
	empty := proc.NewHost([]string{"PATH=" + t.TempDir()})
	if _, err := New(t.Context(), Options{Host: empty, Want: On}); err == nil || !strings.Contains(err.Error(), "install bubblewrap") {
		t.Errorf("got %v", err)
	}
	cells, err := New(t.Context(), Options{Host: empty})
	if err != nil || cells.Sandboxed() || !strings.Contains(cells.String(), "not installed") {
		t.Errorf("%v, %v", cells, err)
	}
}

// Of a home no more than the toolchain is shown.
func TestToolchains(t *testing.T) {
	t.Parallel()
	got := toolchains([]string{
		"PATH=/usr/bin:/home/ann/bin:/home/ann/.cargo/bin:/home/ann/.nvm/versions/node/v20/bin:/root/bin:/home/ann",
		"GOROOT=/home/ann/sdk/go", "CARGO_HOME=/home/ann/.cargo", "GOPATH=/home/ann",
	}, "/home/ann")
	want := []string{
		"/home/ann/sdk/go", "/home/ann/.cargo/bin", "/home/ann/.cargo/registry", "/home/ann/.cargo/git", "/home/ann/.cargo/config.toml",
		"/home/ann/bin", "/home/ann/.cargo/bin", "/home/ann/.cargo/lib/node_modules", "/home/ann/.nvm/versions/node/v20/bin", "/home/ann/.nvm/versions/node/v20", "/root/bin", "/root/lib/node_modules",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Programs that PATH has only links to, as installers for one person make them, run
// in a cell: what stands beside them is shown, and nothing else of where they lie.
func TestLinkedProgramsRun(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	files := map[string]string{
		"apps/tool/bin/tool":    "#!/bin/sh\ncat \"$(dirname \"$(readlink -f \"$0\")\")/../lib/said\"\n",
		"apps/tool/lib/said":    "from its library\n",
		"loose/alone":           "#!/bin/sh\necho alone\n",
		"loose/key":             "secret\n",
		"apps/other/bin/hidden": "not on PATH\n",
	}
	for name, text := range files {
		path := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(home, ".local", "bin")
	if err := errors.Join(os.MkdirAll(bin, 0o755), os.Symlink("../../apps/tool/bin/tool", filepath.Join(bin, "tool")), os.Symlink(filepath.Join(home, "loose/alone"), filepath.Join(bin, "alone")), os.Symlink("nowhere", filepath.Join(bin, "broken")),
		os.MkdirAll(filepath.Join(home, "hops"), 0o755), os.Symlink("../apps/tool/bin/tool", filepath.Join(home, "hops", "between")), os.Symlink("../../hops/between", filepath.Join(bin, "twice"))); err != nil {
		t.Fatal(err)
	}
	found := toolchains([]string{"PATH=/usr/bin:" + bin}, home)
	for _, want := range []string{bin, filepath.Join(home, "apps/tool"), filepath.Join(home, "loose/alone"), filepath.Join(home, "hops/between")} {
		if !slices.Contains(found, want) {
			t.Errorf("%s is not shown: %q", want, found)
		}
	}
	for _, never := range []string{home, filepath.Join(home, "apps"), filepath.Join(home, "loose"), filepath.Join(home, "apps/other")} {
		if slices.Contains(found, never) {
			t.Errorf("%s is shown: %q", never, found)
		}
	}
}

func BenchmarkBareShell(b *testing.B) {
	for b.Loop() {
		if r, err := proc.Run(b.Context(), proc.Command{Name: "sh", Args: []string{"-c", "true"}, Env: host().Only("PATH")}); err != nil || !r.OK() {
			b.Fatal(r, err)
		}
	}
}

func BenchmarkCellShell(b *testing.B) {
	cells, err := New(b.Context(), Options{Host: host(), Limits: Limits{FileSize: 1 << 30, Limits: proc.Limits{Memory: 1 << 30, Processes: 500, Weight: 256}}})
	if err != nil {
		b.Fatal(err)
	}
	if !cells.Sandboxed() {
		b.Skip(cells)
	}
	cell, err := cells.Open(Place{Dir: b.TempDir(), Seen: "/workspace", Scratch: b.TempDir(), Env: host().Only("PATH")})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if r, err := cell.Run(b.Context(), proc.Command{Name: "sh", Args: []string{"-c", "true"}, Env: host().Only("PATH")}); err != nil || !r.OK() {
			b.Fatal(r, err)
		}
	}
	b.StopTimer()
	if err := cell.Close(); err != nil {
		b.Fatal(err)
	}
}

// What is hidden stays so where a toolchain lies above it or beside it, but for what
// the workspace itself reads there.
func TestHiddenIsNotShownWithItsSurroundings(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for name, text := range map[string]string{"bin/tool": "#!/bin/sh\necho tool\n", "hub/greenward/key": "KEY\n", "hub/objects/one": "object\n", "lib/said": "said\n"} {
		path := filepath.Join(top, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	r := sandboxed(t, Limits{}, func(p *Place) {
		for i, pair := range p.Env {
			if strings.HasPrefix(pair, "PATH=") {
				p.Env[i] = pair + ":" + top + "/bin:" + top
			}
		}
		p.Hidden, p.Read = []string{top + "/hub"}, []string{top + "/hub/objects"}
	})
	r.wants("tool; cat "+top+"/lib/said", "tool\nsaid")
	r.wants("cat "+top+"/hub/greenward/key 2>/dev/null || echo no", "no")
	r.wants("cat "+top+"/hub/objects/one; (echo x >"+top+"/hub/made) 2>/dev/null || echo no", "object\nno")
}
