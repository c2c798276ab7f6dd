package main

import (
	"context"
	"flag"
	"io"
	"slices"
	"strings"
	"time"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/workflows/fsck"
)

// taskLine is one open task as `tasks --json` prints it.
type taskLine struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Priority int      `json:"priority"`
	After    []string `json:"after"`
	Ready    bool     `json:"ready"`
	Holder   *string  `json:"holder"` // of the claim on it
	Strays   []string `json:"strays"` // of After: what never was a task
}

func tasksCommand() command {
	return command{
		name: "tasks", args: "[RUN]", summary: "list open tasks and who holds them",
		example: "greenward tasks\ngreenward tasks --json build-a-parser-1a2b",
		run: func(a *app, _ *flag.FlagSet) func(context.Context, []string) error {
			return func(ctx context.Context, args []string) error {
				run, err := optional(args)
				if err != nil {
					return err
				}
				p, err := a.current(ctx)
				if err != nil {
					return err
				}
				if run, err = a.chosen(ctx, p, "tasks", run); err != nil {
					return err
				}
				return a.listTasks(ctx, p, run)
			}
		},
	}
}

func (a *app) listTasks(ctx context.Context, p *place, run string) error {
	board, err := agents.OpenTasks(p.hub.Repo, p.tip, run)
	if err != nil {
		return err
	}
	claims, err := (&agents.Claims{Repo: p.hub.Repo, Now: a.now}).List()
	if err != nil {
		return err
	}
	strays, err := fsck.Strays(ctx, p.hub.Repo, p.tip, board)
	if err != nil {
		return err
	}
	holders := map[string]string{}
	for _, c := range claims {
		holders[c.Task] = c.Holder
	}
	ready := map[string]bool{}
	for _, t := range board.Ready() {
		ready[t.ID] = true
	}
	lines := []taskLine{}
	for _, t := range board.Tasks {
		one := taskLine{ID: t.ID, Title: t.Title, Priority: t.Priority, After: append([]string{}, t.After...), Ready: ready[t.ID], Strays: append([]string{}, strays[t.ID]...)}
		if holder, held := holders[t.ID]; held {
			one.Holder = &holder
		}
		lines = append(lines, one)
	}
	malformed := []string{}
	for _, m := range board.Malformed {
		malformed = append(malformed, m.Error())
	}
	return a.print(map[string]any{"tasks": lines, "malformed": malformed}, func(w io.Writer) {
		for _, t := range lines {
			line(w, "%d  %-40s  %-20s  %s", t.Priority, t.ID, null(t.Holder), t.Title)
			if len(t.Strays) > 0 {
				line(w, "!  %-40s  %s", t.ID, fsck.Stray(t.Strays))
			} else if open := slices.DeleteFunc(slices.Clone(t.After), func(id string) bool { return !board.IsOpen(id) }); len(open) > 0 {
				line(w, "   %-40s  waits for %s", "", strings.Join(open, ", "))
			}
		}
		for _, m := range malformed {
			line(w, "!  %s", m)
		}
		line(w, "%d open", len(lines))
	})
}

// handoffLine is one hand-off as `handoffs --json` prints it, one object a line.
type handoffLine struct {
	Commit  git.Hash  `json:"commit"`
	At      time.Time `json:"at"`
	Task    string    `json:"task"`
	Outcome string    `json:"outcome"`
	Agent   string    `json:"agent"`
	Notes   []string  `json:"notes"`
}

func handoffsCommand() command {
	return command{
		name: "handoffs", args: "[RUN]", summary: "list hand-offs on main, newest first",
		example: "greenward handoffs -n 20\ngreenward handoffs --json build-a-parser-1a2b",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			most := fs.Int("n", 100, "print at most `N`")
			return func(ctx context.Context, args []string) error {
				run, err := optional(args)
				if err != nil {
					return err
				}
				p, err := a.current(ctx)
				if err != nil {
					return err
				}
				if run, err = a.chosen(ctx, p, "handoffs", run); err != nil {
					return err
				}
				return a.listHandoffs(ctx, p, run, *most)
			}
		},
	}
}

func (a *app) listHandoffs(ctx context.Context, p *place, run string, most int) error {
	for h, err := range agents.Handoffs(ctx, p.hub.Repo, p.tip, "", func(h agents.Handoff) bool { return run == "" || agents.RunOf(h.Task) == run }) {
		if err != nil {
			return err
		}
		if most--; most < 0 {
			return nil
		}
		one := handoffLine{h.Commit.Hash, h.Commit.Committer.When.UTC(), h.Task, string(h.Outcome), h.Agent, append([]string{}, h.Notes...)}
		if err := a.print(one, func(w io.Writer) {
			line(w, "%s  %s  %-8s %-40s  %s", one.Commit.Short(), one.At.Format(time.DateTime), one.Outcome, one.Task, one.Agent)
		}); err != nil {
			return err
		}
	}
	return nil
}

// optional takes at most one argument.
func optional(args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	return args[0], noArgs(args[1:])
}
