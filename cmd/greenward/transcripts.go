package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"greenward/agents"
	"greenward/agents/model"
	"greenward/internal/git"
)

func transcriptCommands() []command {
	return []command{
		{
			name: "top", args: "[RUN]", summary: "what agents do at this moment: tasks, replies, tokens, money; --watch to stay", example: "greenward top --watch\ngreenward top --json",
			run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
				watch := fs.Bool("watch", false, "print anew every two seconds until interrupted")
				return func(ctx context.Context, args []string) error {
					run, err := optional(args)
					if err != nil {
						return err
					}
					return a.top(ctx, run, *watch)
				}
			},
		},
		{
			name: "log", args: "[RUN]", summary: "what agents said, did and got, from their transcripts", example: "greenward log --agent worker-003 --since 10m\ngreenward log --task build-a-parser-1a2b/lexer --kind note,end --json",
			run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
				var o logOptions
				o.register(fs)
				fs.IntVar(&o.most, "n", 200, "print the newest `N` events; 0: all")
				return func(ctx context.Context, args []string) error {
					run, err := optional(args)
					if err != nil {
						return err
					}
					o.query.Run = run
					return a.log(ctx, o)
				}
			},
		},
		{
			name: "replay", args: "AGENT", mounts: true, summary: "play an agent's transcript back, in full; --again: run a worker's conversation once more", example: "greenward replay worker-003\ngreenward replay planner --run build-a-parser-1a2b --since 2026-11-29T10:00:00Z\ngreenward replay worker-003 --again --task build-a-parser-1a2b/lexer",
			run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
				var o logOptions
				o.register(fs)
				fs.StringVar(&o.query.Run, "run", "", "of this `RUN` alone, where agents of several runs have one name")
				anew := fs.Bool("again", false, "run the newest conversation of a worker (by --task, --until: an earlier one) again, to its first hand-off: the recorded replies of the model, its tools at work anew in a copy of the hub, which goes afterwards; say whether results and files are the same (exit 0), or where they part first (exit 1)")
				return func(ctx context.Context, args []string) error {
					if len(args) != 1 || args[0] == "" {
						return usagef("replay: say which agent, such as worker-001; greenward log tells names")
					}
					o.query.Agent, o.whole = args[0], true
					if *anew {
						return a.rerun(ctx, o)
					}
					return a.log(ctx, o)
				}
			},
		},
		whyCommand(),
	}
}

// logOptions is what to show of transcripts.
type logOptions struct {
	query              agents.Query
	since, until, kind string
	most               int
	whole              bool // texts in full
}

func (o *logOptions) register(fs *flag.FlagSet) {
	fs.StringVar(&o.query.Agent, "agent", "", "only of this `AGENT`")
	fs.StringVar(&o.query.Task, "task", "", "only about this `TASK`, or tasks below this path")
	fs.StringVar(&o.query.Text, "text", "", "only events that contain `TEXT`")
	fs.StringVar(&o.since, "since", "", "from this `TIME` on: RFC 3339, or an age such as 10m")
	fs.StringVar(&o.until, "until", "", "up to this `TIME`")
	fs.StringVar(&o.kind, "kind", "", "only these `KINDS`, with commas between: start, message, call, result, reply, note, fresh, end")
}

// moment reads a time, or an age.
func (a *app) moment(name, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if age, err := time.ParseDuration(s); err == nil {
		return a.now().Add(-age), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return at, usagef("--%s %q is no time: say 2026-11-29T10:00:00Z, or an age such as 10m", name, s)
	}
	return at, nil
}

// eventLine is an event as `log --json` prints it, one object a line.
type eventLine struct {
	Run string `json:"run"`
	agents.Event
}

func (a *app) log(ctx context.Context, o logOptions) error {
	hub, err := git.OpenHub(ctx, git.HubInput{Dir: orElse(a.dir, "."), Remote: a.remote, Host: a.host})
	if err != nil {
		return err
	}
	if o.query.From, err = a.moment("since", o.since); err != nil {
		return err
	}
	if o.query.To, err = a.moment("until", o.until); err != nil {
		return err
	}
	if o.kind != "" {
		o.query.Kinds = strings.Split(o.kind, ",")
	}
	files, err := o.query.Transcripts(hub.State())
	if err != nil {
		return err
	}
	events, err := healthEvents(hub.Repo, o.query)
	if err != nil {
		return err
	}
	if len(files)+len(events) == 0 {
		if o.query.Agent == "" && o.query.Task == "" && o.query.Run == "" {
			a.note("no agent has worked on this host yet")
			return nil
		}
		return usagef("no agent of that name has a transcript on this host; they lie in %s", filepath.Join(hub.State(), "runs"))
	}
	if o.most > 0 {
		events, err = newestOf(files, o.query, o.most, events)
	} else {
		events, err = allOf(files, o.query, events)
	}
	if err != nil {
		return err
	}
	if events = newest(events, o.most); len(events) == 0 {
		a.note("greenward: no event fits")
	}
	for _, e := range events {
		if err := a.print(e, func(w io.Writer) { showEvent(w, e, o.whole) }); err != nil {
			return err
		}
	}
	return nil
}

// newestOf adds the newest of what a query picks of some transcripts, and reads of
// each no further back than one of the newest so far.
func newestOf(files []string, q agents.Query, most int, events []eventLine) ([]eventLine, error) {
	for _, file := range files {
		if events = newest(events, most); len(events) == most && events[0].At.After(q.From) {
			q.From = events[0].At
		}
		list, err := q.Newest(file, most)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			events = append(events, eventLine{runOf(file), e})
		}
	}
	return events, nil
}

// allOf adds all that a query picks of some transcripts.
func allOf(files []string, q agents.Query, events []eventLine) ([]eventLine, error) {
	for _, file := range files {
		for e, err := range q.Events(file) {
			if err != nil {
				return nil, err
			}
			events = append(events, eventLine{runOf(file), e})
		}
	}
	return events, nil
}

// runOf is the run whose transcript a file is.
func runOf(file string) string { return filepath.Base(filepath.Dir(file)) }

// newest sorts events by time and keeps the last so many; 0: all.
func newest(events []eventLine, most int) []eventLine {
	slices.SortStableFunc(events, func(a, b eventLine) int { return a.At.Compare(b.At) })
	if most > 0 {
		events = events[max(0, len(events)-most):]
	}
	return events
}

func showEvent(w io.Writer, e eventLine, whole bool) {
	head := fmt.Sprintf("%s  %-12s %-8s", e.At.Format("2006-01-02 15:04:05.000"), e.Agent, e.Kind)
	text := ""
	switch e.Kind {
	case agents.EventStart:
		text = fmt.Sprintf("%s on %s with %s, prompt %s", e.Role, orElse(e.Task, e.Text), orElse(e.Model, "a command"), e.Prompt)
	case agents.EventMessage:
		text = messageText(e.Message)
	case agents.EventCall:
		text = strings.TrimSpace(e.Tool + " " + string(e.Args) + " " + e.Text)
	case agents.EventResult:
		text = fmt.Sprintf("%s (%s) %s", e.Tool, e.Took.Round(time.Millisecond), e.Text)
	case agents.EventReply:
		if e.Usage != nil {
			text = fmt.Sprintf("%s: %d tokens in, %d out, %s, after %s", e.Model, e.Usage.Prompt, e.Usage.Completion, e.Text, e.Took.Round(time.Millisecond))
		}
	default:
		text = strings.TrimSpace(e.Outcome + " " + e.Text)
	}
	text = printable(text)
	if !whole {
		text = git.OneLine(text)
		if len(text) > 160 {
			text = strings.ToValidUTF8(text[:160], "") + "…"
		}
	}
	line(w, "%s %s", head, strings.ReplaceAll(text, "\n", "\n    "))
}

func messageText(m *model.Message) string {
	if m == nil {
		return ""
	}
	var text strings.Builder
	text.WriteString(string(m.Role) + ": " + m.Text)
	for _, c := range m.Calls {
		text.WriteString("\n→ " + c.Name + " " + cmp.Or(c.Raw, c.Arguments))
	}
	return text.String()
}

// printable leaves a terminal alone: what agents print may hold its commands.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r >= ' ' && (r < 0x7f || r > 0x9f) && (r < 0x202a || r > 0x202e) && (r < 0x2066 || r > 0x2069) {
			return r
		}
		return '·'
	}, text)
}
