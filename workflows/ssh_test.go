package workflows_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"greenward/internal/proc"
)

// sshDir names the directory in which what a server of ssh shall do wrong is
// asked for by files; where it is set, this program is ssh and its server at once.
const sshDir = "GREENWARD_TEST_SSH"

func TestMain(m *testing.M) {
	if dir := os.Getenv(sshDir); dir != "" {
		os.Exit(double(dir, os.Args[len(os.Args)-1]))
	}
	os.Exit(m.Run())
}

// ssh puts the double of ssh before the repository: git runs it as it would run
// ssh, and it does what sshd does, which is to give the command to a shell. It goes
// through git's own upload-pack and receive-pack; the encryption is left out.
func (r *remote) ssh() {
	r.Helper()
	self, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	r.wrong = r.TempDir()
	r.url = "ssh://git@forge.example" + r.dir
	r.env = []string{fmt.Sprintf("GIT_SSH_COMMAND=%s=%s %s", sshDir, r.wrong, self), "GIT_SSH_VARIANT=ssh"}
}

// double is ssh that was told to run a command of git on a server; it gives the
// exit code.
func double(dir, command string) int {
	if asked(dir, "down") {
		fmt.Fprintln(os.Stderr, "ssh: connect to host forge.example port 22: Connection refused")
		return 255
	}
	if !strings.HasPrefix(command, "git-upload-pack '") && !strings.HasPrefix(command, "git-receive-pack '") {
		fmt.Fprintln(os.Stderr, "this account serves git alone")
		return 128
	}
	var out io.Writer = os.Stdout
	lose := strings.HasPrefix(command, "git-receive-pack") && asked(dir, "lose")
	if lose {
		if err := os.Remove(filepath.Join(dir, "lose")); err != nil {
			return 255
		}
		out = &greeting{out: os.Stdout}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	result, err := proc.Run(ctx, proc.Command{
		Name: "sh", Args: []string{"-c", command}, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"},
		Stdin: os.Stdin, Stdout: out, Stderr: os.Stderr, Timeout: time.Minute,
	})
	if err != nil || lose {
		fmt.Fprintln(os.Stderr, "client_loop: send disconnect: Broken pipe", err)
		return 255
	}
	return result.Code
}

func asked(dir, what string) bool {
	_, err := os.Stat(filepath.Join(dir, what))
	return !errors.Is(err, fs.ErrNotExist)
}

// greeting lets through what a server says first, up to the flush packet, and
// swallows its answer: the connection is lost after it took the push.
type greeting struct {
	out  io.Writer
	held []byte
	over bool
}

func (g *greeting) Write(p []byte) (int, error) {
	g.held = append(g.held, p...)
	for !g.over && len(g.held) >= 4 {
		n, err := strconv.ParseUint(string(g.held[:4]), 16, 16)
		if err != nil {
			return 0, fmt.Errorf("no packet: %q", g.held[:4])
		}
		n = max(n, 4) // a flush packet has no more than its length, which is 0
		if uint64(len(g.held)) < n {
			break
		}
		g.over = bytes.HasPrefix(g.held, []byte("0000"))
		if _, err := g.out.Write(g.held[:n]); err != nil {
			return 0, err
		}
		g.held = g.held[n:]
	}
	return len(p), nil
}
