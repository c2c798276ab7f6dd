package tools

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"greenward/internal/proc"
)

//go:embed *.md *.json
var prose embed.FS

const (
	defaultOutput  = 64 << 10
	defaultTimeout = 10 * time.Minute
	maxFile        = 16 << 20 // bytes of a file that a tool takes into memory
)

// Env is what a workspace needs of the world.
type Env struct {
	Dir string // required; the top of the working tree
	// Files lists the workspace's files that git does not ignore, as paths with
	// slashes.
	Files func(ctx context.Context) ([]string, error) // required
	// Environ is the whole environment of commands, without secrets; what
	// keeps them from asking questions is added.
	Environ []string
	// Run runs a command; nil: proc.Run, unconfined.
	Run     func(ctx context.Context, c proc.Command) (proc.Result, error)
	Seen    string        // the path of Dir as commands see it; "": the same
	Spool   string        // required; a directory outside of Dir for outputs that are too long
	Output  int           // bytes of a result; 0: 64 KiB
	Timeout time.Duration // of a command, unless it asks for less; 0: 10 min
	// Redact takes out of a text what nobody may be shown, before it is cut; nil:
	// nothing.
	Redact func(text string) string
	// Filter is Redact for output that comes in pieces; nil: as it comes.
	Filter func(w io.Writer) Filter
}

// Filter is a writer that may hold something back until Flush. It is written to by one
// goroutine at a time.
type Filter interface {
	io.Writer
	Flush() error
}

// through passes everything on.
type through struct{ io.Writer }

// Flush has nothing to do.
func (through) Flush() error { return nil }

// Workspace is a directory that tools work on. It is safe for concurrent use.
type Workspace struct {
	env   Env
	alias string // Dir as it was given, where that leads there by links
	root  *os.Root
	spool *os.Root
	jobs  jobs
}

// Tool is one thing that a model can do.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // of the arguments: a JSON schema
	// Run does it. Whatever the model can act on, a refusal or a failed
	// command too, is a Result; an error is trouble of the harness, or the end
	// of ctx.
	Run func(ctx context.Context, args json.RawMessage) (Result, error)
}

// Result is what the model gets to read: valid UTF-8 without NUL, of bounded
// length.
type Result struct {
	Text   string
	Failed bool // the tool did not do what was asked
}

// Open opens a workspace. Close frees it.
func Open(env Env) (*Workspace, error) {
	if env.Files == nil || env.Dir == "" || env.Spool == "" {
		return nil, errors.New("open workspace: Dir, Files and Spool are required")
	}
	if env.Output <= 0 {
		env.Output = defaultOutput
	}
	if env.Timeout <= 0 {
		env.Timeout = defaultTimeout
	}
	if env.Run == nil {
		env.Run = proc.Run
	}
	if env.Redact == nil {
		env.Redact = func(text string) string { return text }
	}
	if env.Filter == nil {
		env.Filter = func(w io.Writer) Filter { return through{w} }
	}
	w := &Workspace{}
	var err error
	if err = os.MkdirAll(env.Spool, 0o700); err == nil {
		_, env.Spool, err = resolve(env.Spool)
	}
	if err == nil {
		w.alias, env.Dir, err = resolve(env.Dir)
	}
	if err == nil {
		w.root, err = os.OpenRoot(env.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	if w.spool, err = os.OpenRoot(env.Spool); err != nil {
		return nil, errors.Join(fmt.Errorf("open workspace: %w", err), w.root.Close())
	}
	w.env = env
	return w, nil
}

// resolve makes a directory absolute, and then free of links.
func resolve(dir string) (abs, plain string, err error) {
	if abs, err = filepath.Abs(dir); err != nil {
		return "", "", err
	}
	plain, err = filepath.EvalSymlinks(abs)
	return abs, plain, err
}

// Close ends what runs in the background and frees the workspace; files stay.
func (w *Workspace) Close() error {
	w.jobs.end()
	return errors.Join(w.root.Close(), w.spool.Close())
}

// Tools lists all tools: read, search, write, edit, shell, job.
func (w *Workspace) Tools() ([]Tool, error) {
	return w.offer(map[string]action{"read": w.read, "search": w.search, "write": w.write, "edit": w.edit, "shell": w.shell, "job": w.look},
		"read", "search", "write", "edit", "shell", "job")
}

// Readers lists the tools that change nothing: read, search.
func (w *Workspace) Readers() ([]Tool, error) {
	return w.offer(map[string]action{"read": w.read, "search": w.search}, "read", "search")
}

// action does what a tool does; a fault is for the model.
type action func(ctx context.Context, args *arguments) (string, error)

// fault is an error that the model can act on.
type fault string

func (f fault) Error() string { return string(f) }

func faultf(format string, args ...any) fault { return fault(fmt.Sprintf(format, args...)) }

func (w *Workspace) offer(actions map[string]action, names ...string) ([]Tool, error) {
	tools := make([]Tool, 0, len(names))
	for _, name := range names {
		text, err := prose.ReadFile(name + ".md")
		if err != nil {
			return nil, fmt.Errorf("read the prose of a tool: %w", err)
		}
		schema, err := prose.ReadFile(name + ".json")
		if err != nil {
			return nil, fmt.Errorf("read the arguments of a tool: %w", err)
		}
		do := actions[name]
		tools = append(tools, Tool{
			Name: name, Description: strings.TrimSpace(string(text)), Schema: schema,
			Run: func(ctx context.Context, args json.RawMessage) (Result, error) { return run(ctx, do, args) },
		})
	}
	return tools, nil
}

func run(ctx context.Context, do action, raw json.RawMessage) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	args, err := parse(raw)
	text := ""
	if err == nil {
		text, err = do(ctx, args)
	}
	if refusal, ok := errors.AsType[fault](err); ok {
		return Result{Text: clean("error: " + string(refusal)), Failed: true}, nil
	}
	return Result{Text: clean(text)}, err
}

func clean(s string) string { return proc.Text([]byte(s)) }
