package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"greenward/agents/model"
	"greenward/agents/tools"
	"greenward/internal/proc"
)

// CommandEnv is the whole environment of commands that run in workspaces: where
// programs and caches are, a home of their own, and no secret. What else a
// project needs is appended by the caller.
func CommandEnv(host proc.Host, home string) []string {
	env := host.Only("PATH", "TMPDIR", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"GOCACHE", "GOMODCACHE", "GOPATH", "GOROOT", "GOFLAGS", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN", "GONOSUMDB", "GOPRIVATE",
		"CARGO_HOME", "RUSTUP_HOME", "npm_config_cache", "PIP_CACHE_DIR", "JAVA_HOME", "CCACHE_DIR")
	return append(env, "HOME="+home, "LANG=C.UTF-8", "CI=1", "TERM=dumb", "NO_COLOR=1", "PAGER=cat", "GIT_PAGER=cat", "EDITOR=true",
		"GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true", "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1")
}

// toolbox is the hands of one agent in one workspace.
type toolbox struct {
	workspace *tools.Workspace
}

// toolboxInput says where the hands work.
type toolboxInput struct {
	Workspace *Workspace
	Env       []string
	Limits    Limits
	// Transcript knows the keys that nothing may show that the hands bring in.
	Transcript *Transcript
}

func openToolbox(in toolboxInput) (*toolbox, error) {
	w, err := tools.Open(tools.Env{
		Dir: in.Workspace.Dir(), Seen: in.Workspace.Seen(), Files: in.Workspace.Ls, Run: in.Workspace.Run, Environ: in.Env, Spool: spoolDir(in.Workspace.base()),
		Output: in.Limits.Output, Timeout: in.Limits.Command, Redact: in.Transcript.Redact,
		Filter: func(w io.Writer) tools.Filter { return in.Transcript.Filter(w) },
	})
	if err != nil {
		return nil, fmt.Errorf("open the tools: %w", err)
	}
	return &toolbox{w}, nil
}

// spoolDir is where the outputs of a workspace go that are too long to be shown;
// it goes with the workspace.
func spoolDir(base string) string { return base + ".spool" }

// all is read, search, write, edit and shell.
func (b *toolbox) all() ([]Tool, error) { return adapt(b.workspace.Tools()) }

// readers is what changes nothing.
func (b *toolbox) readers() ([]Tool, error) { return adapt(b.workspace.Readers()) }

// Close frees the workspace; files stay.
func (b *toolbox) Close() error { return b.workspace.Close() }

func adapt(list []tools.Tool, err error) ([]Tool, error) {
	if err != nil {
		return nil, err
	}
	var adapted []Tool
	for _, tool := range list {
		adapted = append(adapted, Tool{
			Def: model.ToolDef{Name: tool.Name, Description: tool.Description, Parameters: tool.Schema},
			Run: func(ctx context.Context, call model.ToolCall) (Result, error) {
				result, err := tool.Run(ctx, json.RawMessage(call.Arguments))
				return Result{Text: result.Text}, err
			},
		})
	}
	return adapted, nil
}
