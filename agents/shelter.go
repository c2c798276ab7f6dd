package agents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"greenward/internal/proc"
)

// Shelter confines the commands of agents.
type Shelter interface {
	// Open makes the room that one workspace's commands run in.
	Open(in RoomInput) (Room, error)
	// Seen is the path at which commands see the workspace in dir.
	Seen(dir string) string
}

// RoomInput says what a room is for.
type RoomInput struct {
	Dir     string   // the workspace: commands may write there
	Scratch string   // a directory for the home and the temporary files of its commands
	Read    []string // what they may read besides
}

// Room is where the commands of one workspace run, all within the same bounds. It
// is safe for concurrent use.
type Room interface {
	Run(ctx context.Context, c proc.Command) (proc.Result, error)
	// Close ends whatever still runs there.
	Close() error
}

// scratchDir is the home and the /tmp of a workspace's commands; it goes with the
// workspace.
func scratchDir(base string) string { return base + ".cell" }

// Run runs a command of the agent in its workspace, confined as the shelter says.
// The room is made by the first; all of them share its bounds.
func (ws *Workspace) Run(ctx context.Context, c proc.Command) (proc.Result, error) {
	if ws.all.Shelter == nil {
		return proc.Run(ctx, c)
	}
	room, err := ws.enter()
	if err != nil {
		return proc.Result{}, err
	}
	result, err := room.Run(ctx, c)
	if result.OutOfMemory {
		ws.starved.Add(1)
	}
	return result, err
}

// leave puts a file into the temporary directory of the workspace's commands, and
// gives its path as they see it.
func (ws *Workspace) leave(name, text string) (string, error) {
	dir := filepath.Join(scratchDir(ws.base()), "tmp")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("leave a file for a command: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("leave a file for a command: %w", err)
	}
	if ws.Seen() != ws.Dir() {
		return "/tmp/" + name, nil
	}
	return filepath.Join(dir, name), nil
}

// Seen is the workspace's path as its commands see it.
func (ws *Workspace) Seen() string {
	if ws.all.Shelter == nil {
		return ws.Dir()
	}
	return ws.all.Shelter.Seen(ws.Dir())
}

// Seal keeps the commands of the workspace from all of the hub but the files that are
// checked out. It is for a workspace in which nothing ran yet.
func (ws *Workspace) Seal(ctx context.Context) error {
	ws.sealed = true
	return ws.Worktree.Seal(ctx)
}

func (ws *Workspace) enter() (Room, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.room != nil {
		return ws.room, nil
	}
	var read []string // a sealed one needs nothing from outside
	if !ws.sealed {
		var err error
		if read, err = ws.ReadOnly(); err != nil {
			return nil, err
		}
	}
	room, err := ws.all.Shelter.Open(RoomInput{Dir: ws.Dir(), Scratch: scratchDir(ws.base()), Read: append(read, spoolDir(ws.base()))})
	if err != nil {
		return nil, fmt.Errorf("confine %s: %w", ws.owner.Agent, err)
	}
	ws.room = room
	return room, nil
}

// evict ends whatever still runs in the workspace.
func (ws *Workspace) evict() error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.room == nil {
		return nil
	}
	err := ws.room.Close()
	ws.room = nil
	return err
}

// runShell runs a command line of the project in a workspace, bounded.
// What it prints is free of the keys of a transcript.
func (ws *Workspace) runShell(ctx context.Context, env []string, line string, most time.Duration, t *Transcript) (proc.Result, string, error) {
	kept := proc.NewCapture(4<<10, 12<<10, nil)
	out := t.Filter(kept)
	result, err := ws.Run(ctx, proc.Command{
		Name: "sh", Args: []string{"-c", line}, Dir: ws.Dir(), Env: env, Stdout: out, Stderr: out, Timeout: most,
	})
	return result, kept.String(), errors.Join(err, out.Flush())
}
