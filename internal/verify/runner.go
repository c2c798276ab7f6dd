package verify

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/proc"
)

// Subject is what checks are run on.
type Subject struct {
	// Commit is what the note sits on, and what a check with history sees. It
	// may be absent for a tree that no commit has; the note is then on the tree.
	Commit git.Hash
	// Tree is what is checked, with or without tasks/, which is taken out.
	// Absent: the commit's.
	Tree git.Hash
}

// Runner runs checks on a hub and records what they said. It holds nothing
// between calls; any number of Runners, in any number of processes, share the
// slots of one State.
type Runner struct {
	Repo   *git.Repo         // required
	Ledger *Ledger           // required: the ledger of Repo, which trusts Signer's key
	State  string            // required: directory for work/, turns/ and runs/
	Signer git.Signer        // required: the hub's key
	Now    func() time.Time  // required
	Work   string            // directory for workspaces, the same for every process on the hub; "": work/ below State
	Host   proc.Host         // what checks may see of the environment is taken from here
	Caches map[string]string // variables on top, such as GOCACHE
	Slots  int               // checks at once; 0: one
	Name   string            // recorded as runner; "": hub
	// Confine runs checks that want a sandbox; nil: there is none, and they are
	// Broken.
	Confine Confiner
}

// Confiner runs a command where it reaches nothing but its workspace.
type Confiner interface {
	// Confined runs c, whose workspace is dir.
	Confined(ctx context.Context, dir string, c proc.Command) (proc.Result, error)
}

// Bounds of running what has given no conclusive evidence yet.
const (
	inconclusiveTries = 3
	inconclusiveRest  = 10 * time.Minute
)

// Judge says what is known of a tree after running what has to be run: checks
// without evidence that tells pass from failure, or with again all of them once
// more. The checks run in parallel over the slots, and all to their end. What
// cannot be run because of the machine is Broken in the report, not an error;
// an error means that ctx ended, that the ledger could not be read or written, or
// that there are no checks (config.ErrNoChecks), for want of which nothing passes.
func (r *Runner) Judge(ctx context.Context, s Subject, checks []config.Check, again bool) (Report, error) {
	if len(checks) == 0 {
		return Report{}, fmt.Errorf("judge %s: %w", cmp.Or(s.Commit, s.Tree).Short(), config.ErrNoChecks)
	}
	s, err := s.strip(r.Repo)
	if err != nil {
		return Report{}, err
	}
	report := Report{Tree: s.Tree, Outcomes: make([]Outcome, len(checks))}
	var group errgroup.Group // without a context: one check's trouble does not waste the others' runs
	if err := r.hear(s, checks, report.Outcomes); err != nil {
		return Report{}, err
	}
	for i, check := range checks {
		if check.Remote != "" {
			continue
		}
		group.Go(func() error {
			outcome, err := r.judge(ctx, job{Subject: s, check: check, again: again})
			report.Outcomes[i] = r.finish(outcome, check)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return Report{}, fmt.Errorf("judge %s: %w", cmp.Or(s.Commit, s.Tree).Short(), err)
	}
	for _, o := range report.Outcomes {
		report.Ran += o.Ran
	}
	if report.Ran > 0 {
		if err := prune(r.spools(), spoolsKept, spoolsBytes); err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Msg("old outputs kept")
		}
	}
	return report, nil
}

// Known is what the ledger says of a tree; nothing is run. A check without
// evidence is Unknown.
func (r *Runner) Known(s Subject, checks []config.Check) (Report, error) {
	if len(checks) == 0 {
		return Report{}, fmt.Errorf("judge %s: %w", cmp.Or(s.Commit, s.Tree).Short(), config.ErrNoChecks)
	}
	s, err := s.strip(r.Repo)
	if err != nil {
		return Report{}, err
	}
	report := Report{Tree: s.Tree}
	for _, check := range checks {
		outcome, err := r.Ledger.known(s, check)
		if err != nil {
			return Report{}, err
		}
		report.Outcomes = append(report.Outcomes, r.finish(outcome, check))
	}
	return report, nil
}

// Needs lists the checks that have to run on a tree, once more or at all, before
// it can be said whether it is good: those without a pass or failure, as often as
// that is worth it for the moment, and those that failed while neither verdict is
// sure. Judge with again runs them; nothing is run here.
func (r *Runner) Needs(s Subject, checks []config.Check) ([]config.Check, error) {
	report, err := r.Known(s, checks)
	if err != nil {
		return nil, err
	}
	var needs []config.Check
	for i, o := range report.Outcomes {
		if o.Again {
			needs = append(needs, checks[i])
		}
	}
	return needs, nil
}

// finish adds to an outcome what depends on the moment.
func (r *Runner) finish(o Outcome, check config.Check) Outcome {
	o.Again = check.Remote == "" && (!check.Sandbox || r.Confine != nil) && (o.undecided() || !r.settled(o))
	return o.quarantine(check, r.Now())
}

func (l *Ledger) known(s Subject, check config.Check) (Outcome, error) {
	t := topicOf(s, check)
	runs, _, err := l.runs(t)
	if err != nil {
		return Outcome{}, err
	}
	return sum(check, runs, l.noise(t, runs)), nil
}

// strip fills in the tree and takes tasks/ out of it.
func (s Subject) strip(repo *git.Repo) (Subject, error) {
	tree, err := repo.WithoutTasks(cmp.Or(s.Tree, s.Commit))
	if err != nil {
		return s, fmt.Errorf("take tasks/ out of %s: %w", cmp.Or(s.Tree, s.Commit).Short(), err)
	}
	s.Tree = tree
	s.Commit = cmp.Or(s.Commit, tree)
	return s, nil
}

// job is one check to be judged on a subject that is stripped.
type job struct {
	Subject
	check  config.Check
	again  bool // run it whatever is known
	before int  // runs that were known when it was asked for
}

// judge is Judge for one check.
func (r *Runner) judge(ctx context.Context, j job) (Outcome, error) {
	known, err := r.Ledger.known(j.Subject, j.check)
	if err != nil || !j.again && r.settled(known) {
		return known, err
	}
	if j.check.Sandbox && r.Confine == nil {
		known.Verdict, known.Cause = Broken, CauseSandbox
		known.Why = "sandbox: true is wanted, and checks cannot be confined here; set it to false to run unconfined"
		return known, nil
	}
	j.before = known.Runs
	release, err := alone(ctx, filepath.Join(r.turns(), "judging"), topicOf(j.Subject, j.check))
	if err != nil {
		return r.unable(ctx, j, known, err)
	}
	outcome, err := r.judgeAlone(ctx, j)
	return outcome, errors.Join(err, release())
}

// judgeAlone is judge while nobody else runs the same check on the same tree.
func (r *Runner) judgeAlone(ctx context.Context, j job) (Outcome, error) {
	known, err := r.Ledger.known(j.Subject, j.check)
	if err != nil || r.answered(known, j) {
		return known, err
	}
	slot, err := acquire(ctx, r.turns(), cmp.Or(r.Work, filepath.Join(r.State, "work")), r.Slots)
	if err != nil {
		return r.unable(ctx, j, known, err)
	}
	outcome, err := r.judgeIn(ctx, slot, j)
	return outcome, errors.Join(err, slot.release())
}

// answered reports whether somebody else made the run that j asks for, while we
// waited for our turn.
func (r *Runner) answered(known Outcome, j job) bool {
	return known.Runs > j.before || !j.again && r.settled(known)
}

// unable records that the machine has no place to run a check in.
func (r *Runner) unable(ctx context.Context, j job, known Outcome, err error) (Outcome, error) {
	if ctx.Err() != nil {
		return known, err
	}
	now := r.Now()
	return r.record(ctx, j, result{finding: Finding{Broken, CauseWorkspace, err.Error()}, started: now, finished: now, id: newID(now)})
}

func (r *Runner) judgeIn(ctx context.Context, slot slot, j job) (Outcome, error) {
	known, err := r.Ledger.known(j.Subject, j.check) // another host may have run it while we waited
	if err != nil || r.answered(known, j) {
		return known, err
	}
	j.again = j.again || known.Runs > 0
	done, err := r.run(ctx, slot, j)
	if err := slot.clear(); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("workspace left behind") // the next run replaces it, or says that it cannot
	}
	if err != nil {
		return known, err
	}
	return r.record(ctx, j, done)
}

// settled reports whether evidence makes a run needless: it is conclusive, or
// it was tried often enough for the moment.
func (r *Runner) settled(known Outcome) bool {
	if known.Verdict.Conclusive() {
		return true
	}
	return known.Runs >= inconclusiveTries && r.Now().Sub(known.Last) < inconclusiveRest
}

// result is one run that came to an end of its own.
type result struct {
	id                string
	finding           Finding
	started, finished time.Time
	tally             *Tally
	output, spool     string
}

// run runs a check once. An error means that ctx ended: there is no result
// then. Trouble of the machine is a Broken result.
func (r *Runner) run(ctx context.Context, slot slot, j job) (result, error) {
	started := r.Now()
	done := result{id: newID(started), started: started}
	finding, err := r.try(ctx, slot, j, &done)
	if ctx.Err() != nil {
		return result{}, fmt.Errorf("run check %q: %w", j.check.Name, context.Cause(ctx))
	}
	if err != nil {
		finding = Finding{Broken, CauseWorkspace, err.Error()}
	}
	done.finding, done.finished = finding, r.Now()
	return done, nil
}

// try does the run and fills in what it leaves.
func (r *Runner) try(ctx context.Context, slot slot, j job, done *result) (Finding, error) {
	if j.check.History && j.Commit == j.Tree {
		return Finding{}, errors.New("the check wants history, and this tree has no commit")
	}
	r.Host.At("verify.workspace")
	if err := slot.prepare(ctx, r.Repo, j.Subject, j.check.History); err != nil {
		return Finding{}, err
	}
	path := filepath.Join(r.spools(), done.id+".log")
	whole, err := newSpool(path)
	if err != nil {
		return Finding{}, err
	}
	done.spool = path
	text := proc.NewCapture(headKept, tailKept, nil)
	report, err := reporterFor(j.check, slot.dir, text)
	if err != nil {
		_, cerr := whole.close()
		return Finding{}, errors.Join(err, cerr)
	}
	command := proc.Command{
		Name: "sh", Args: []string{"-c", j.check.Run}, Dir: slot.dir, Env: r.environment(slot.dir, j.again), Timeout: j.check.Timeout,
	}
	command.Stdout, command.Stderr = outputs(report, whole, text)
	r.Host.At("verify.run")
	ended, runErr := bounded(ctx, j.check, command, r.starter(slot.dir, j.check))
	full, spoolErr := whole.close()
	done.output = text.String()
	if runErr != nil {
		return Finding{}, runErr
	}
	if spoolErr != nil {
		zerolog.Ctx(ctx).Warn().Err(spoolErr).Msg("output kept in part")
	}
	r.Host.At("verify.ran")
	if report != nil {
		done.tally, err = report.finish()
		done.output = text.String()
		if err != nil && ended.OK() {
			return Finding{Unknown, CauseReport, "exit 0, but its report cannot be read: " + err.Error()}, nil
		}
		if err != nil {
			done.tally = nil // cut short; the exit says enough
		}
	}
	return Conclude(Ending{
		Code: ended.Code, Signal: ended.Signal, TimedOut: ended.TimedOut, Timeout: j.check.Timeout, DiskFull: full, OutOfMemory: ended.OutOfMemory,
	}, done.tally), nil
}

// starter is what runs a check's command: confined where it wants to be.
func (r *Runner) starter(dir string, check config.Check) func(context.Context, proc.Command) (proc.Result, error) {
	if !check.Sandbox {
		return proc.Run
	}
	return func(ctx context.Context, c proc.Command) (proc.Result, error) { return r.Confine.Confined(ctx, dir, c) }
}

// outputs are the writers of a check's two streams. Where no report is read from
// standard output both are the same, which keeps their order.
func outputs(report reporter, whole *spool, text *proc.Capture) (stdout, stderr io.Writer) {
	both := tee{whole, text}
	switch report := report.(type) {
	case *goReport:
		return &tee{whole, report}, &both
	case *tapReport:
		return &tee{whole, text, report}, &both
	}
	return &both, &both
}

// tee writes to all of its writers, none of which fails.
type tee []io.Writer

func (t *tee) Write(p []byte) (int, error) {
	for _, w := range *t {
		if _, err := w.Write(p); err != nil {
			return 0, fmt.Errorf("keep output: %w", err)
		}
	}
	return len(p), nil
}

// record signs the run, adds it to the ledger and says what is known now.
func (r *Runner) record(ctx context.Context, j job, done result) (Outcome, error) {
	t := topicOf(j.Subject, j.check)
	line := Run{
		Key: t.key(done.id), Tree: j.Tree, Commit: j.Commit, Check: j.check.Name, Def: t.def, Run: done.id,
		Verdict: done.finding.Verdict, Cause: done.finding.Cause, Why: short(done.finding.Why),
		Started: done.started, Finished: done.finished, Runner: cmp.Or(r.Name, "hub"),
	}
	if done.tally != nil {
		line.Tests = &done.tally.Ran
		line.Failing = done.tally.Names[:min(len(done.tally.Names), maxFailing)]
	}
	line, err := line.Signed(r.Signer)
	if err != nil {
		return Outcome{}, err
	}
	if err := r.Ledger.Add(context.WithoutCancel(ctx), []Run{line}); err != nil {
		return Outcome{}, err
	}
	zerolog.Ctx(ctx).Debug().Str("check", j.check.Name).Str("commit", j.Commit.Short()).Str("verdict", string(line.Verdict)).Str("why", line.Why).Dur("took", line.Took()).Msg("check ran")
	outcome, err := r.Ledger.known(j.Subject, j.check)
	if err != nil {
		return Outcome{}, err
	}
	outcome.Ran, outcome.Output, outcome.Spool = 1, done.output, done.spool
	if done.tally != nil {
		outcome.Each = done.tally.Each
	}
	if done.tally != nil && line.Verdict == Failed {
		outcome.Failing = done.tally.Names
	}
	return outcome, nil
}

// turns is where the lock files are that order who runs what when.
func (r *Runner) turns() string { return filepath.Join(r.State, "turns") }

func (r *Runner) spools() string { return filepath.Join(r.State, "runs", "checks") }

// newID names a run: it sorts by time and never comes twice.
func newID(at time.Time) string {
	var unique [6]byte
	_, _ = rand.Read(unique[:]) // never fails: it would end the program instead
	return at.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(unique[:])
}

// short bounds the reason that goes into a ledger line, on one line.
func short(why string) string {
	why = git.OneLine(why)
	if len(why) > 500 {
		why = git.OneLine(why[:500]) + "…"
	}
	return why
}
