package modeltest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"greenward/internal/proc"
)

// StandIn is a model server that others wrote, npm's aimock: it answers as a file of
// fixtures says, on Chat Completions below /v1, Responses, and what claude and gemini
// speak. The folder standin installs it.
type StandIn struct {
	Home     string   // required: the directory that it is installed in
	Fixtures string   // required: the file of what it answers
	Env      []string // required: PATH and HOME
	Log      io.Writer
}

// Run serves until ctx ends, with the key sk-test-key, and tells ready its address, without
// /v1, once it listens. The error says why it did not start; nil after that.
func (s StandIn) Run(ctx context.Context, ready func(address string)) error {
	said, to := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := proc.Run(ctx, proc.Command{
			Name: "node", Args: []string{filepath.Join(s.Home, "node_modules/@copilotkit/aimock/dist/cli.js"), "-h", "127.0.0.1", "-p", "0", "-f", s.Fixtures, "--strict"},
			Env: append(append([]string(nil), s.Env...), "AIMOCK_API_KEYS=sk-test-key", "AIMOCK_STRICT_TURN_INDEX=1"), Stdout: to, Stderr: s.Log,
		})
		_ = to.Close() // whoever reads comes to the end
		ended <- err
	}()
	const listening = "listening on "
	started := false
	for lines := bufio.NewScanner(said); !started && lines.Scan(); {
		if _, address, ok := strings.Cut(lines.Text(), listening); ok {
			started = true
			ready(strings.TrimSpace(address))
		}
	}
	_, _ = io.Copy(io.Discard, said) // it must not wait for us
	err := <-ended
	if started {
		return nil // it ends because it was told to
	}
	return fmt.Errorf("start the model server of %s: %w", s.Home, errors.Join(err, errors.New("it did not say where it listens")))
}
