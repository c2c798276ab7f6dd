package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"greenward/agents/model"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/proc"

	"github.com/rs/zerolog"
)

// Exit codes of the contract.
const (
	exitDone        = 0
	exitNo          = 1 // it failed, or the answer is no
	exitUsage       = 2 // wrong usage or configuration
	exitInterrupted = 130
)

// app is one command line being run.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	host           proc.Host
	now            func() time.Time

	again string // the command that goes on from here when this one is interrupted; empty: the same

	// ownMounts begins this program anew with mounts that end with it; nil: what it
	// mounts is taken away by its next start where it is killed.
	ownMounts func() error

	limits *model.Limits // of model servers, shared by all that this process asks; nil: each client has its own

	key git.Credential // to enter the remote over HTTP with; nil: as the user's own git does

	listener context.CancelCauseFunc // ends the command when nobody reads its results any more; nil: it goes on

	dir, config, remote string
	json                bool
	verbose             bool
}

// command is one word that greenward knows.
type command struct {
	name    string
	args    string // after the name, for the usage line
	summary string
	more    string // what the help says besides
	example string
	mounts  bool // it makes workspaces, which may be mounts
	run     func(a *app, fs *flag.FlagSet) func(ctx context.Context, args []string) error
}

// usageError is a wrong command line or a wrong setting, with its cure.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// errNo says that all was printed and the answer is no.
var errNo = errors.New("no")

func (a *app) main(ctx context.Context, args []string) int {
	logger := zerolog.New(zerolog.ConsoleWriter{Out: a.stderr, NoColor: true, TimeFormat: "15:04:05"}).With().Timestamp().Logger().Level(zerolog.WarnLevel)
	err := a.dispatch(logger.WithContext(ctx), args)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return exitDone
	case errors.Is(err, errNo) || errors.Is(err, syscall.EPIPE) || errors.Is(err, errUnheard):
		return exitNo
	case ctx.Err() != nil:
		fmt.Fprintf(a.stderr, "greenward: interrupted; nothing is lost, %s goes on from here\n", orElse(a.again, "the same command"))
		return exitInterrupted
	}
	fmt.Fprintln(a.stderr, "greenward: "+strings.TrimRight(err.Error(), "\n"))
	if lost, ok := errors.AsType[*git.MissingError](err); ok {
		a.note("greenward: %s is missing in %s; what another clone or the remote has of it comes back with: git -C %q fetch --refetch --no-write-fetch-head OTHER '+refs/*:refs/restored/*'; greenward fsck lists what else is lost",
			lost.Object, lost.Dir, lost.Dir)
	}
	if wrongUse(err) {
		return exitUsage
	}
	return exitNo
}

// wrongUse reports whether the person, not the world, has to change something.
func wrongUse(err error) bool {
	if _, ok := errors.AsType[usageError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*config.Error](err); ok {
		return true
	}
	return slices.ContainsFunc([]error{config.ErrNoChecks, git.ErrNotRepository, git.ErrNoCommits, git.ErrUnsupported, errNoModel, errNoPlanner},
		func(known error) bool { return errors.Is(err, known) })
}

func (a *app) dispatch(ctx context.Context, args []string) error {
	args, err := a.globals(args)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		a.overview(a.stderr, "")
		return usageError{"say what to do; the commands are above"}
	}
	switch word := args[0]; {
	case word == "help" && len(args) == 1, word == "-h", word == "--help":
		a.overview(a.stdout, "")
		return nil
	case word == "help":
		args = append(args[1:], "--help")
	case word == "version", word == "--version", word == "-version":
		return a.print(built(), func(w io.Writer) { line(w, "greenward %s", built()) })
	}
	if args, err = a.between(args); err != nil {
		return err
	}
	cmd, rest, err := find(commands(), args)
	if err != nil && len(args) == 2 && (args[1] == "--help" || args[1] == "-h") && isGroup(args[0]) {
		a.overview(a.stdout, args[0])
		return nil
	}
	if err != nil {
		return err
	}
	fs := flag.NewFlagSet(cmd.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	a.register(fs)
	act := cmd.run(a, fs)
	positional, err := parse(fs, rest)
	if errors.Is(err, flag.ErrHelp) {
		a.help(cmd, fs)
		return err
	}
	if err != nil {
		return usagef("%s: %v; see greenward %s --help", cmd.name, err, cmd.name)
	}
	if a.verbose {
		ctx = zerolog.Ctx(ctx).Level(zerolog.InfoLevel).WithContext(ctx)
	}
	if err := a.keepMounts(ctx, cmd); err != nil {
		return err
	}
	ctx, a.listener = context.WithCancelCause(ctx)
	defer a.listener(nil)
	if cmd.works() {
		a.listener = nil
	}
	err = act(ctx, positional)
	if errors.Is(context.Cause(ctx), errUnheard) {
		return errUnheard
	}
	return err
}

// keepMounts gives a command that mounts workspaces mounts of its own, which end with
// it, where the machine can.
func (a *app) keepMounts(ctx context.Context, cmd command) error {
	if !cmd.mounts || a.ownMounts == nil {
		return nil
	}
	err := a.ownMounts()
	if errors.Is(err, proc.ErrNoOverlay) {
		zerolog.Ctx(ctx).Info().Err(err).Msg("mounts of a killed run stay until the next")
		return nil
	}
	return err
}

// globals takes the flags that stand before the command.
func (a *app) globals(args []string) ([]string, error) {
	fs := flag.NewFlagSet("greenward", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	a.register(fs)
	version := fs.Bool("version", false, "say which version this is")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return []string{"--help"}, nil
	} else if err != nil {
		return nil, usagef("%v; see greenward --help", err)
	}
	if *version {
		return []string{"version"}, nil
	}
	return fs.Args(), nil
}

// between takes the same flags where they stand inside the name of a command, as in
// green --json status.
func (a *app) between(args []string) ([]string, error) {
	for n := 1; n < min(len(args), 3); n++ {
		name := strings.Join(args[:n], " ")
		if !isGroup(name) || !strings.HasPrefix(args[n], "-") || args[n] == "-h" || args[n] == "--help" || args[n] == "--" {
			continue
		}
		rest, err := a.globals(args[n:])
		if _, own, unknown := find(commands(), args[:n]); err != nil && unknown == nil && own == nil {
			return args, nil // a command too, which may have that flag
		}
		if err != nil {
			return nil, usagef("%s: %v: flags of one command stand after its name", name, err)
		}
		args = append(slices.Clone(args[:n]), rest...)
	}
	return args, nil
}

func (a *app) register(fs *flag.FlagSet) {
	fs.StringVar(&a.dir, "C", a.dir, "work on the repository in `DIR`")
	fs.StringVar(&a.config, "config", a.config, "read the policy from `FILE` instead of main's "+config.File)
	fs.BoolVar(&a.json, "json", a.json, "print JSON")
	fs.StringVar(&a.remote, "remote", orElse(a.remote, defaultRemote), "the `REMOTE` of a clone to keep in step with")
	fs.BoolVar(&a.verbose, "v", a.verbose, "log what is done, on standard error")
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// parse lets flags stand after arguments too; "--" ends them.
func parse(fs *flag.FlagSet, args []string) ([]string, error) {
	var positional []string
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		rest := fs.Args()
		if len(rest) == 0 {
			return positional, nil
		}
		if used := len(args) - len(rest); used > 0 && args[used-1] == "--" {
			return append(positional, rest...), nil
		}
		positional, args = append(positional, rest[0]), rest[1:]
	}
}

// find takes the longest command that the words name.
func find(known []command, words []string) (command, []string, error) {
	for n := min(len(words), 3); n > 0; n-- {
		name := strings.Join(words[:n], " ")
		for _, c := range known {
			if c.name == name {
				return c, words[n:], nil
			}
		}
	}
	var under []string
	for _, c := range known {
		if after, ok := strings.CutPrefix(c.name, words[0]+" "); ok {
			under = append(under, after)
		}
	}
	if len(under) > 0 {
		return command{}, nil, usagef("%s: say which of: %s", words[0], strings.Join(under, ", "))
	}
	return command{}, nil, usagef("%q is no command%s; see greenward --help", words[0], nearest(known, words[0]))
}

// isGroup reports whether a word only begins commands.
func isGroup(word string) bool {
	return slices.ContainsFunc(commands(), func(c command) bool { return strings.HasPrefix(c.name, word+" ") })
}

func nearest(known []command, word string) string {
	for _, c := range known {
		if len(word) >= 2 && (strings.HasPrefix(c.name, word[:2]) || strings.Contains(c.name, word)) {
			return fmt.Sprintf(" (%q is)", c.name)
		}
	}
	return ""
}

// overview lists the commands, or those under one word.
func (a *app) overview(w io.Writer, under string) {
	fmt.Fprint(w, "greenward lands the changes of many agents and people, and keeps green releasable.\n\nusage: greenward [-C DIR] [--config FILE] [--json] COMMAND\n       greenward --version\n\n")
	for _, c := range commands() {
		if under == "" || c.name == under || strings.HasPrefix(c.name, under+" ") {
			fmt.Fprintf(w, "  %-24s %s\n", c.name, c.summary)
		}
	}
	fmt.Fprint(w, "\ngreenward COMMAND --help says more. A first look: greenward demo\n")
}

func (a *app) help(c command, fs *flag.FlagSet) {
	fmt.Fprintf(a.stdout, "%s\n\nusage: greenward %s %s\n\n", c.summary, c.name, c.args)
	fs.SetOutput(a.stdout)
	fs.PrintDefaults()
	if c.more != "" {
		fmt.Fprintf(a.stdout, "\n%s\n", c.more)
	}
	if c.example != "" {
		fmt.Fprintf(a.stdout, "\nexamples:\n  %s\n", strings.ReplaceAll(strings.TrimSpace(c.example), "\n", "\n  "))
	}
}

// print gives a result: as one JSON document, or as text.
func (a *app) print(v any, text func(w io.Writer)) error {
	if !a.json {
		text(a.stdout)
		return nil
	}
	out := json.NewEncoder(a.stdout)
	out.SetEscapeHTML(false)
	if err := out.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// note tells a person what goes on; it is never part of a result.
func (a *app) note(format string, args ...any) { fmt.Fprintf(a.stderr, format+"\n", args...) }

func parseCount(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, usagef("%q is not a count", s)
	}
	return n, nil
}

func noArgs(args []string) error {
	if len(args) > 0 {
		return usagef("%q is one argument too many", args[0])
	}
	return nil
}
