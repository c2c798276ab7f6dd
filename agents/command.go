package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"greenward/agents/model"
	"greenward/agents/prompts"
	"greenward/internal/git"
	"greenward/internal/proc"
)

// CommandMind lets any command do the work: the task on its stdin, or in a file
// whose path stands where its arguments say {file}; the workspace as its current
// directory. What it prints as JSON lines is read where it can be read, as the
// events of codex exec --json; no more than a note. Its exit code proves nothing;
// what it left in the working tree is the work.
type CommandMind struct {
	Argv []string      // required
	Time time.Duration // most for one start; 0: 45 minutes
	// Silence ends a start that prints nothing, while no file of the workspace
	// changes, for so long; 0: no bound.
	Silence time.Duration
	Env     []string // KEY=VALUE, on top of the job's
	Tries   int      // starts for one text before blocked; 0: 2
	// Model is the name under which prices know what the command asks; empty: nobody
	// knows what it costs.
	Model   string
	Account *Account // charged with the tokens that it tells of; nil: none
	// Listen reads what the command prints, and calls used, before Write returns,
	// for tokens that it tells of, cached being a part of prompt; nil: what it prints
	// is only output.
	Listen func(used func(prompt, cached, completion int64)) Told
}

// Told is what a command tells of its work. All of it is foreign text.
type Told interface {
	io.Writer
	End()            // no more comes
	Said() string    // its last words
	Fault() string   // trouble that it told of
	Steps() []string // commands that it says it ran
}

// silent is a command that tells nothing.
type silent struct{ io.Writer }

func (silent) End()            {}
func (silent) Said() string    { return "" }
func (silent) Fault() string   { return "" }
func (silent) Steps() []string { return nil }

// Begin only remembers the job.
func (m *CommandMind) Begin(_ context.Context, job Job) (Session, error) {
	if len(m.Argv) == 0 || m.Argv[0] == "" {
		return nil, errors.New("start a worker: its command is empty; set agents.roles.worker.command")
	}
	intro, err := prompts.Render("command", prompts.Facts{Agent: job.Agent, Run: job.Run, Task: job.Task.ID, Checks: job.Checks})
	if err != nil {
		return nil, err
	}
	s := &commandSession{mind: *m, job: job, intro: intro.Text}
	s.mind.Argv = slices.Clone(m.Argv)
	var secrets []model.Secret
	for _, entry := range m.Env {
		if name, value, _ := strings.Cut(entry, "="); len(value) >= minLent {
			s.lent, secrets = append(s.lent, name), append(secrets, model.NewSecret(value))
		}
	}
	s.secrets = secrets
	own := model.Redactor(secrets...)
	s.redact = func(text string) string { return job.Transcript.Redact(own(text)) }
	return s, job.Transcript.Add(Event{Kind: EventStart, Role: "worker", Task: job.Task.ID, Prompt: intro.Hash, Text: strings.Join(m.Argv, " ")})
}

// commandSession is one command at one task. Each text starts the command anew.
type commandSession struct {
	mind  CommandMind
	job   Job
	intro string
	said  string // the task, told again to every later start
	spent model.Usage
	told  int          // how often it has told of what it used
	began *[2]git.Hash // the state before its first start

	lent    []string            // names of variables that were lent to it
	secrets []model.Secret      // their values
	redact  func(string) string // takes those out of a text
}

// maxTold bounds how often what a command says that it used is noted one by one.
const maxTold = 10_000

// taskFile is where a command finds its task that wants it in a file.
const taskFile = "{file}"

// hand puts the task where the command reads it.
func (s *commandSession) hand(text string) (argv []string, stdin io.Reader, err error) {
	argv = slices.Clone(s.mind.Argv)
	at := ""
	for i, arg := range argv {
		if !strings.Contains(arg, taskFile) {
			continue
		}
		if at == "" {
			if at, err = s.job.Workspace.leave("task.md", text); err != nil {
				return nil, nil, err
			}
		}
		argv[i] = strings.ReplaceAll(arg, taskFile, at)
	}
	if at != "" {
		return argv, nil, nil
	}
	return argv, strings.NewReader(text), nil
}

// Work starts the command until its files are acceptable, or its tries are used up.
func (s *commandSession) Work(ctx context.Context, text string, accept Accept) (Report, error) {
	if s.said == "" {
		s.said = text
	} else {
		text = s.said + "\n\n" + text
	}
	tries := cmp.Or(s.mind.Tries, 2)
	for try := 1; ; try++ {
		report, err := s.start(ctx, s.intro+"\n\n"+text+"\n")
		if err != nil {
			return Report{}, err
		}
		refusal, err := s.leak(ctx)
		if refusal == "" && err == nil {
			refusal, err = accept(ctx, report)
		}
		if err != nil || refusal == "" {
			return report, err
		}
		if err := s.job.Transcript.Add(Event{Kind: EventNote, Text: refusal}); err != nil {
			return Report{}, err
		}
		if try == tries {
			report.Outcome = Blocked
			report.Notes = append([]string{refusal}, report.Notes...)
			return report, nil
		}
		text += "\n\nYou worked on this already; the files are as you left them. " + refusal
	}
}

// start runs the command once. How it ended is told, and is no proof of anything.
func (s *commandSession) start(ctx context.Context, text string) (Report, error) {
	if err := s.mind.Account.Over(s.job.Task.ID); err != nil {
		return Report{}, err
	}
	argv := strings.Join(s.mind.Argv, " ")
	if err := s.job.Transcript.Add(Event{Kind: EventCall, Tool: argv, Text: text}); err != nil {
		return Report{}, err
	}
	before, err := s.state(ctx)
	if err != nil {
		return Report{}, err
	}
	call, stdin, err := s.hand(text)
	if err != nil {
		return Report{}, err
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var told Told = silent{io.Discard}
	if s.mind.Listen != nil {
		told = s.mind.Listen(func(prompt, cached, completion int64) {
			if err := s.charge(model.Usage{Prompt: prompt, Cached: cached, Completion: completion}); err != nil {
				stop(err) // a command whose budget is used up is ended where it is
			}
		})
	}
	// What was lent goes before anything is cut, each stream by itself.
	kept := proc.NewCapture(4<<10, 12<<10, nil)
	out, problems := s.job.Transcript.Filter(io.MultiWriter(kept, told), s.secrets...), s.job.Transcript.Filter(kept, s.secrets...)
	heard := hear(running, s.mind.Silence, s.state, before, stop)
	result, err := s.job.Workspace.Run(running, proc.Command{
		Name: call[0], Args: call[1:], Dir: s.job.Workspace.Dir(), Env: append(append([]string(nil), s.job.Env...), s.mind.Env...),
		Stdin: stdin, Stdout: io.MultiWriter(heard, out), Stderr: io.MultiWriter(heard, problems), Timeout: cmp.Or(s.mind.Time, 45*time.Minute),
	})
	flushed := errors.Join(out.Flush(), problems.Flush())
	told.End()
	ended := result.String()
	cause := context.Cause(running)
	stop(nil)
	heard.Wait()
	switch {
	case errors.Is(err, proc.ErrNotFound):
		return Report{}, fmt.Errorf("start the worker command: %w", err)
	case err != nil && errors.Is(cause, errNoSign) && ctx.Err() == nil:
		ended, result.Code, err = fmt.Sprintf("it printed nothing and changed no file for %s, and was stopped", s.mind.Silence), 1, nil
	case err == nil && errors.Is(cause, ErrBudget): // it ended as its budget did
		err = cause
	}
	if err = errors.Join(err, flushed); err != nil {
		return Report{}, fmt.Errorf("run the worker command %q: %w", s.mind.Argv[0], err)
	}
	if err := s.job.Transcript.Add(Event{Kind: EventResult, Tool: argv, Text: s.redact(kept.String()), Took: result.Took, Outcome: ended}); err != nil {
		return Report{}, err
	}
	after, err := s.state(ctx)
	if err != nil {
		return Report{}, err
	}
	if s.began == nil {
		s.began = &before
	}
	return s.report(result.OK(), ended, after != *s.began, told, kept.String())
}

// minLent is the length of a lent value below which it is found in anything.
const minLent = 8

// leak refuses files that hold what was lent to the command for its own use.
func (s *commandSession) leak(ctx context.Context) (refusal string, err error) {
	if len(s.lent) == 0 {
		return "", nil
	}
	tree, err := s.job.Workspace.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	patch, err := s.job.Workspace.Repo().Diff(ctx, s.job.Workspace.Base, tree)
	if err != nil || s.redact(string(patch)) == string(patch) {
		return "", err
	}
	return fmt.Sprintf("not handed off: your files hold the value of a credential that was lent to you (one of %s). Take it out.", strings.Join(s.lent, ", ")), nil
}

// report is what a command that has ended is taken to say.
func (s *commandSession) report(ok bool, ended string, changed bool, told Told, output string) (Report, error) {
	report := Report{Outcome: Done, Summary: s.job.Task.Title, Model: s.mind.Model, Notes: []string{fmt.Sprintf("%s ended: %s", s.mind.Argv[0], ended)}}
	switch {
	case !ok && !changed:
		report.Outcome = Failed // it did nothing, and says so
	case !ok:
		report.Outcome = Partial
	case !changed && len(s.job.Task.Acceptance) == 0:
		// One that could not log in, or read no task, ends with 0 too.
		report.Outcome = Partial
		report.Notes = append(report.Notes, "it changed no file, and that it ended well proves nothing: the task may have been done before, or not at all")
	}
	// What it says goes into commits, which go everywhere.
	if fault := told.Fault(); fault != "" {
		report.Concerns = append(report.Concerns, s.redact(fault))
	}
	if last := cmp.Or(told.Said(), lastLines(output, 5)); last != "" {
		report.Notes = append(report.Notes, s.redact(last))
	}
	argv := strings.Join(s.mind.Argv, " ")
	for _, step := range told.Steps() {
		if err := s.job.Transcript.Add(Event{Kind: EventNote, Tool: argv, Text: s.redact("it says that it ran: " + step)}); err != nil {
			return Report{}, err
		}
	}
	return report, s.job.Transcript.Add(Event{Kind: EventEnd, Outcome: string(report.Outcome)})
}

// charge notes what the command says that it used, as a reply is noted, and charges
// it. The error is an ErrBudget once the command must not go on.
func (s *commandSession) charge(u model.Usage) error {
	s.spent = s.spent.Add(u)
	if s.told++; s.told <= maxTold {
		if err := s.job.Transcript.Add(Event{Kind: EventReply, Model: s.mind.Model, Usage: &u}); err != nil {
			return err
		}
	}
	if s.mind.Account == nil {
		return nil
	}
	if err := s.mind.Account.Charge(s.job.Task.ID, u, s.mind.Model); err != nil {
		return err
	}
	return s.mind.Account.Over(s.job.Task.ID)
}

// state is where HEAD stands and what the files are.
func (s *commandSession) state(ctx context.Context) ([2]git.Hash, error) {
	head, err := s.job.Workspace.Head(ctx)
	if err != nil && !errors.Is(err, git.ErrNotFound) {
		return [2]git.Hash{}, err
	}
	tree, err := s.job.Workspace.Snapshot(ctx)
	return [2]git.Hash{head, tree}, err
}

// lastLines is the end of an output, for the planner to read.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Spent is what the command says that it used.
func (s *commandSession) Spent() model.Usage { return s.spent }

// Close ends nothing: the command has ended.
func (s *commandSession) Close() error { return nil }
