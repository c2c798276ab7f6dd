package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"greenward/internal/git/disk"
	"greenward/internal/proc"
)

// ErrNotRepository says that a directory is no git repository.
var ErrNotRepository = errors.New("not a git repository")

// ErrUnsupported says that a repository is of a kind that greenward cannot work on.
var ErrUnsupported = errors.New("unsupported repository")

// local bounds one git command that talks to no other machine.
const local = 10 * time.Minute

// Repo is one git directory. It is safe for concurrent use.
type Repo struct {
	dir  string // absolute git directory
	host proc.Host
	of   *Repo // what a Stage stands on: reads go there
	from *Repo // reads what a working copy borrows, for all that borrow it; nil: none

	door     *door         // how the remote is entered; nil: as the user's own git does
	patience time.Duration // most for one exchange with a remote; 0: remoteTime
	disk     disk.Disk
	past     *beyond    // a mirror's quick way to its hub; nil: not tried yet
	beyondMu sync.Mutex // of past
	reader
}

// Open opens the git directory dir (bare, or a .git) or, when dir is a working
// tree or lies in one, the repository that it belongs to.
func Open(ctx context.Context, dir string, host proc.Host) (*Repo, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", dir, err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("open %q: %w: no such directory", dir, ErrNotRepository)
	}
	r := &Repo{dir: abs, host: host}
	out, err := r.command(ctx, call{dir: abs, discover: true, args: []string{"rev-parse", "--absolute-git-dir", "--show-object-format"}})
	if err != nil {
		if _, ran := errors.AsType[*CommandError](err); ran {
			return nil, fmt.Errorf("open %q: %w: run git init there, or pass -C DIR", dir, ErrNotRepository)
		}
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	r.dir = strings.Join(lines[:len(lines)-1], "\n")
	if format := lines[len(lines)-1]; format != "sha1" {
		return nil, fmt.Errorf("open %q: %w: its object format is %s; sha1 is wanted", dir, ErrUnsupported, format)
	}
	return r, nil
}

// InitBare makes a bare repository at dir whose HEAD is main, or opens the one
// that is there.
func InitBare(ctx context.Context, dir string, host proc.Host) (*Repo, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make %q: %w", dir, err)
	}
	r := &Repo{dir: dir, host: host}
	if _, err := r.command(ctx, call{dir: dir, discover: true, args: []string{"init", "-q", "--bare", "-b", "main", "."}}); err != nil {
		return nil, fmt.Errorf("make a bare repository at %q: %w", dir, err)
	}
	return Open(ctx, dir, host)
}

// Dir is the absolute git directory.
func (r *Repo) Dir() string { return r.dir }

// files are the repository's way to the disk.
func (r *Repo) files() *disk.Disk { return &r.home().disk }

// Syncs is how often the disk was waited for so far by what this process wrote into
// the repository and by the gits that moved refs for it.
func (r *Repo) Syncs() int64 { return r.files().Waits() }

// Host is the environment that the repository's commands run in.
func (r *Repo) Host() proc.Host { return r.host }

// IsBare reports whether the repository has no working tree of its own.
func (r *Repo) IsBare(ctx context.Context) (bool, error) {
	out, err := r.git(ctx, "rev-parse", "--is-bare-repository")
	return strings.TrimSpace(string(out)) == "true", err
}

// IsShallow reports whether history is cut off, so that ancestry cannot be trusted.
func (r *Repo) IsShallow() bool {
	_, err := os.Stat(filepath.Join(r.dir, "shallow"))
	return err == nil
}

// CommandError is a git command that ran and did not succeed.
type CommandError struct {
	Args   []string
	Code   int
	Stderr string
	Timed  bool
}

// Error names the command and quotes what git said.
func (e *CommandError) Error() string {
	said := strings.TrimSpace(e.Stderr)
	if e.Timed {
		said = "no answer within the time limit; " + said
	}
	return fmt.Sprintf("git %s (exit %d): %s", strings.Join(e.Args, " "), e.Code, said)
}

// call is one git command.
type call struct {
	args     []string
	dir      string // working directory; default: the git directory
	worktree string // working tree, when the command has one
	env      []string
	stdin    io.Reader
	timeout  time.Duration
	discover bool // find the repository from dir instead of naming it
	survive  bool // finish even when this process is killed
	remote   bool // the user's configuration and credentials apply
}

// git runs a command on the repository and gives its standard output.
func (r *Repo) git(ctx context.Context, args ...string) ([]byte, error) {
	return r.command(ctx, call{args: args})
}

func (r *Repo) command(ctx context.Context, c call) ([]byte, error) {
	var stdout bytes.Buffer
	stderr := proc.NewCapture(4<<10, 4<<10, nil)
	args := []string{"--no-replace-objects"}
	if !c.discover {
		args = append(args, "--git-dir="+r.dir)
	}
	if c.worktree != "" {
		args = append(args, "--work-tree="+c.worktree)
	}
	for _, setting := range settings() {
		args = append(args, "-c", setting)
	}
	if c.dir == "" {
		c.dir = r.dir
	}
	if c.timeout == 0 && c.remote {
		c.timeout = cmp.Or(r.patience, remoteTime)
	}
	if c.timeout == 0 {
		c.timeout = local
	}
	env := append(r.environment(c), c.env...)
	if c.remote && r.door != nil {
		secret, err := r.door.env(ctx)
		if err != nil {
			return nil, fmt.Errorf("run git %s: %w", c.args[0], err)
		}
		env = append(env, secret...)
	}
	result, err := proc.Run(ctx, proc.Command{
		Name: "git", Args: append(args, c.args...), Dir: c.dir, Env: env,
		Stdin: c.stdin, Stdout: &stdout, Stderr: stderr, Timeout: c.timeout, Survive: c.survive,
	})
	if err != nil {
		return nil, fmt.Errorf("run git %s: %w", c.args[0], err)
	}
	if !result.OK() {
		return stdout.Bytes(), &CommandError{Args: c.args, Code: result.Code, Stderr: stderr.String(), Timed: result.TimedOut}
	}
	return stdout.Bytes(), nil
}

// settings override whatever a repository's own configuration says that could
// run a program, prompt, or change what a command means.
func settings() []string {
	return []string{
		"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.quotePath=false", "core.attributesFile=/dev/null",
		"core.excludesFile=/dev/null", "gc.auto=0", "maintenance.auto=false", "commit.gpgSign=false", "tag.gpgSign=false",
		"push.gpgSign=false", "protocol.ext.allow=never", "diff.external=", "log.showSignature=false", "safe.directory=*",
		"init.defaultBranch=main", "merge.conflictStyle=merge", "merge.renames=true", "merge.directoryRenames=conflict",
		"merge.renormalize=false", "transfer.fsckObjects=false", "receive.denyCurrentBranch=refuse", "advice.detachedHead=false",
		// Many processes move refs of one hub: wait for a lock longer than git's 0.1 s before giving up.
		"core.filesRefLockTimeout=2000", "core.packedRefsTimeout=2000",
		// Or every object that is named is also looked for as a ref, in 14 places.
		"core.warnAmbiguousRefs=false",
	}
}

func (r *Repo) environment(c call) []string {
	env := append(r.host.Only("PATH", "TMPDIR", "SYSTEMROOT"),
		"LC_ALL=C", "TZ=UTC", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_EDITOR=true", "GIT_PAGER=cat",
		"GIT_MERGE_AUTOEDIT=no", "GIT_LFS_SKIP_SMUDGE=1", "GIT_ADVICE=0",
		"GIT_AUTHOR_NAME=greenward", "GIT_AUTHOR_EMAIL=greenward@localhost", "GIT_COMMITTER_NAME=greenward", "GIT_COMMITTER_EMAIL=greenward@localhost",
	)
	if !c.discover {
		env = append(env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(r.dir))
	}
	if c.remote {
		return append(env, append(r.host.Only("HOME", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "XDG_CONFIG_HOME", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO",
			"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy"), "GIT_ASKPASS=true", "SSH_ASKPASS=true")...)
	}
	return append(env, "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
}
