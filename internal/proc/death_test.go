package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// playKey makes the test binary play a part in another test.
const playKey = "PROC_TEST_PLAY"

func TestMain(m *testing.M) {
	if part := os.Getenv(playKey); part != "" {
		if err := play(part); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play is a greenward that is going to be killed, with commands under way.
func play(part string) error {
	ctx := context.Background()
	switch part {
	case "owner":
		lone := sh("echo $$ >lone; exec sleep 4444")
		tree := sh("(setsid sh -c 'echo $$ >stray; exec sleep 4445' &) & echo $$ >top; sleep 4446")
		last := sh("trap '' TERM; echo $$ >last; i=0; until [ -e go ] || [ $i -gt 600 ]; do sleep 0.1; i=$((i+1)); done; echo >finished")
		last.Survive = true
		for _, c := range []Command{lone, tree, last} {
			if _, err := Start(ctx, c); err != nil {
				return err
			}
		}
		self, err := Self()
		if err != nil {
			return err
		}
		fmt.Printf("%d %s %s\n", self.Pid, self.Start, self.Host)
		pause(time.Hour) // it is killed; select{} alone is a deadlock to a program without C
		return nil
	case "placed":
		return playPlaced(os.Stdout)
	case "holder":
		if _, err := Lock(os.Getenv(playKey + "_FILE")); err != nil {
			return err
		}
		fmt.Println("held")
		pause(time.Hour) // it is killed; select{} alone is a deadlock to a program without C
		return nil
	}
	return errors.New("no such part")
}

// start another greenward and return its first line of output.
func other(t *testing.T, dir, part string, more ...string) (*exec.Cmd, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, slices.Concat(env, []string{playKey + "=" + part}, more), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, strings.TrimSpace(line)
}

func TestDeadGreenwardIsSweptUpAfter(t *testing.T) {
	needs(t, "setsid")
	dir := t.TempDir()
	cmd, line := other(t, dir, "owner")
	words := strings.Fields(line)
	pid, err := strconv.Atoi(words[0])
	if err != nil {
		t.Fatal(err)
	}
	owner := Identity{Pid: pid, Start: words[1], Host: words[2]}
	pids := map[string]int{}
	for _, name := range []string{"lone", "stray", "top", "last"} {
		eventually(t, name+" is up", func() bool {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return false
			}
			pids[name], err = strconv.Atoi(strings.TrimSpace(string(data)))
			return err == nil
		})
	}
	if !owner.Alive() {
		t.Error("a living process is said to be dead")
	}
	if _, err := Sweep(t.Context()); err != nil || !alive(pids["stray"]) || !alive(pids["lone"]) {
		t.Fatalf("swept a living greenward's commands away: %v", err)
	}

	if err := cmd.Process.Kill(); err != nil { // not yet waited for: a zombie is dead, too
		t.Fatal(err)
	}
	eventually(t, "its death is seen", func() bool { return !owner.Alive() })
	eventually(t, "its direct commands die with it", func() bool { return !alive(pids["lone"]) && !alive(pids["top"]) })
	if !alive(pids["last"]) {
		t.Error("the command that was to survive is dead")
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	killed, err := Sweep(t.Context())
	if err != nil || killed < 1 {
		t.Errorf("got %d killed, %v", killed, err)
	}
	gone(t, dir, "lone", "stray", "top", "last")
	if _, err := os.Stat(filepath.Join(dir, "finished")); err != nil {
		t.Errorf("the surviving command did not finish: %v", err)
	}
}

// A thread that ends takes its forked children along if they asked for
// Pdeathsig: here threads end all the time.
func TestEndingThreadsKillNobody(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var one sync.WaitGroup
				one.Go(func() { runtime.LockOSThread() }) // ends its thread
				one.Wait()
			}
		})
	}
	var runs sync.WaitGroup
	for range 20 {
		runs.Go(func() {
			if r, err := Run(t.Context(), sh("sleep 0.5; exit 5")); err != nil || r.Code != 5 {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
	runs.Wait()
	close(stop)
	wg.Wait()
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	self, err := Self()
	if err != nil || !self.Alive() {
		t.Fatalf("got %+v, %v", self, err)
	}
	again, err := Self()
	if err != nil || again != self {
		t.Errorf("got %+v, then %+v", self, again)
	}
	elsewhere := self
	elsewhere.Host, elsewhere.Pid = "elsewhere", 1<<30
	if !elsewhere.Alive() {
		t.Error("a process of another host is said to be dead")
	}
	if runtime.GOOS == "linux" {
		reused := self
		reused.Start = "0.1"
		if reused.Alive() {
			t.Error("a number that was given away again is said to be alive")
		}
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	finished := Identity{Pid: cmd.Process.Pid, Start: "0.0", Host: self.Host}
	if finished.Alive() {
		t.Error("a finished process is said to be alive")
	}
	if (Identity{}) != (Identity{Host: ""}) || !(Identity{}).Alive() {
		t.Error("nothing is known of the zero identity, so it is not dead")
	}
}

func TestMarkerReadsBack(t *testing.T) {
	t.Parallel()
	want := Identity{Pid: 12, Start: "ab.34", Host: clean("a host:with\ncolon")}
	for _, survive := range []bool{false, true} {
		got, s, ok := parseMarker(want.marker(survive))
		if !ok || s != survive || got != want {
			t.Errorf("got %+v, %v, %v", got, s, ok)
		}
	}
	for _, bad := range []string{"", "a:1:2", "a:b:c:d", "a:-1:c:d", "a:12x:c:d", "a:1:2:3:4"} {
		if _, _, ok := parseMarker(bad); ok {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lock")
	release, err := Lock(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(file); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v, want %v", err, ErrLocked)
	}
	if r, err := Run(t.Context(), sh("exit 0")); err != nil || !r.OK() { // a child does not inherit it
		t.Error(r, err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	cmd, _ := other(t, t.TempDir(), "holder", playKey+"_FILE="+file)
	if _, err := Lock(file); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v, want %v", err, ErrLocked)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lock ends with its holder", func() bool {
		release, err = Lock(file)
		return err == nil
	})
	if err := release(); err != nil {
		t.Error(err)
	}
	if _, err := Lock(filepath.Join(file, "below")); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("got %v for an impossible path", err)
	}
}
