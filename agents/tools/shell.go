package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"greenward/internal/proc"
)

// maxSpool bounds what one command's output takes on disk.
const maxSpool = 1 << 30

// shell runs a command.
func (w *Workspace) shell(ctx context.Context, a *arguments) (string, error) {
	command, background := a.text("command"), a.flag("background")
	seconds := a.number("timeout", math.MaxInt32, math.MaxInt32)
	if err := a.check(); err != nil {
		return "", err
	}
	switch {
	case strings.TrimSpace(command) == "":
		return "", fault(`"command" is empty`)
	case strings.ContainsRune(command, 0):
		return "", fault(`"command" can't hold NUL`)
	}
	if info, err := os.Stat(w.env.Dir); err != nil || !info.IsDir() {
		return "", fault("the workspace's directory is gone: a command removed it. Nothing more can be done here; hand off as blocked or failed")
	}
	if background {
		return w.background(ctx, command)
	}
	timeout := min(time.Duration(seconds)*time.Second, w.env.Timeout)
	spool, err := os.CreateTemp(w.env.Spool, "shell-*.txt")
	if err != nil {
		return "", fmt.Errorf("spool output: %w", err)
	}
	out := proc.NewCapture(w.env.Output/4, w.env.Output-w.env.Output/4, &bounded{w: spool, left: maxSpool})
	said := w.env.Filter(out)
	result, err := w.env.Run(ctx, proc.Command{
		Name: "sh", Args: []string{"-c", command}, Dir: w.env.Dir, Env: w.environ(),
		Stdout: said, Stderr: said, Timeout: timeout,
	})
	err = errors.Join(err, said.Flush())
	whole := ""
	if out.Total() > int64(w.env.Output) {
		whole = fmt.Sprintf("\n[the whole output, %d bytes: %s]", out.Total(), spool.Name())
		if out.Err() != nil {
			whole = fmt.Sprintf("\n[output of %d bytes; only its beginning could be kept: %s]", out.Total(), spool.Name())
		}
		err = errors.Join(err, spool.Close())
	} else {
		err = errors.Join(err, spool.Close(), os.Remove(spool.Name()))
	}
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, proc.ErrStuck):
		return "", faultf("the command hangs in the kernel although it was killed")
	case err != nil:
		return "", err
	}
	return report(out.String(), result, timeout) + whole, nil
}

// report puts the output and the end of a command into words.
func report(output string, r proc.Result, timeout time.Duration) string {
	if output == "" {
		output = "(no output)"
	}
	output = strings.TrimSuffix(output, "\n")
	took := r.Took.Round(10 * time.Millisecond)
	if r.OutOfMemory {
		output += "\n[out of memory: the limit of all your commands together was met, and a process was ended for it]"
	}
	switch {
	case r.TimedOut:
		return fmt.Sprintf("%s\n[killed with all its processes after the time limit of %s. If it waited for input: there is none. If it serves: start it in the background.]", output, timeout)
	case r.Signal != "":
		return fmt.Sprintf("%s\n[ended by signal: %s, after %s]", output, r.Signal, took)
	default:
		return fmt.Sprintf("%s\n[exit code %d, after %s]", output, r.Code, took)
	}
}

// environ is the environment of a command: what was allowed, without what is
// plainly a secret of greenward, and with what keeps programs from asking.
func (w *Workspace) environ() []string {
	env := slices.DeleteFunc(slices.Clone(w.env.Environ), func(pair string) bool {
		return strings.HasPrefix(pair, "GREENWARD_") || strings.HasPrefix(pair, "OPENAI_")
	})
	return append(env,
		"PWD="+w.env.Dir,
		"CI=1", "TERM=dumb", "NO_COLOR=1",
		"PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat",
		"EDITOR=true", "VISUAL=true", "GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true", "GIT_MERGE_AUTOEDIT=no",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true", "SSH_ASKPASS=true", "SSH_ASKPASS_REQUIRE=never",
		"GIT_SSH_COMMAND=ssh -o BatchMode=yes -o ConnectTimeout=10",
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(w.env.Dir),
		"DEBIAN_FRONTEND=noninteractive",
	)
}

// bounded passes on so many bytes, then fails.
type bounded struct {
	w    io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	n := int(min(b.left, int64(len(p))))
	k, err := b.w.Write(p[:n])
	b.left -= int64(k)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return k, err
}
