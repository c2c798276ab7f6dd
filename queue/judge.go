package queue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/verify"
	"greenward/queue/plan"
)

// A round that others wait for ends when the slowest of its tests took
// laggardTimes as long as the first one, and laggardLeast more: what has not ended
// by then is cancelled, and its set split.
const (
	laggardTimes = 4
	laggardLeast = 2 * time.Minute
)

// round is a round of tests that goes on beside the passes.
type round struct {
	done   chan Built // gets one
	cancel context.CancelCauseFunc
	ended  sync.WaitGroup
}

// candidate sets by base and entries: a later test may stand on an earlier one,
// whose base main has left behind.
type builds map[string][]Merged

func setKey(base string, set []string) string { return base + " " + strings.Join(set, " ") }

// build makes the candidates of a round and starts their tests. Where another
// process builds for this hub, nothing is started.
func (l *Lander) build(ctx context.Context, e Build) (Event, error) {
	release, free, err := l.Hub.TryLock(buildsLock)
	if err != nil {
		return nil, err
	}
	if !free {
		return Idle{Class: e.Class}, nil
	}
	out := Built{Class: e.Class, Results: make([]BuiltTest, len(e.Tests))}
	var names []string
	for i, t := range e.Tests {
		made, err := l.assemble(ctx, t)
		if err != nil {
			return nil, errors.Join(err, release())
		}
		out.Results[i] = made
		names = append(names, entries(made.Merged)...)
	}
	if err := errors.Join(l.setBuilding(names), l.stage.Flush(ctx)); err != nil {
		return nil, errors.Join(err, release())
	}
	running, cancel := context.WithCancelCause(ctx)
	r := &round{done: make(chan Built, 1), cancel: cancel}
	checks := l.checks(e.Class)
	r.ended.Go(func() {
		l.runAll(running, &out, checks)
		if err := errors.Join(l.clearBuilding(), release()); err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Msg("end of a build not noted")
		}
		r.done <- out
	})
	l.round = r
	return nil, nil
}

// assemble merges the entries of a test onto its base, one after the other. What
// does not merge with those before it is left out.
func (l *Lander) assemble(ctx context.Context, t plan.Test) (BuiltTest, error) {
	out := BuiltTest{Result: plan.Result{Test: t}}
	tip := git.Hash(t.Base)
	from := 0
	for n := len(t.Set); n > 0; n-- {
		if made, ok := l.builds[setKey(t.Base, t.Set[:n])]; ok {
			out.Merged, tip, from = slices.Clone(made), made[n-1].Tip, n
			break
		}
	}
	for _, entry := range t.Set[from:] {
		w, waits := l.entries[entry]
		if !waits {
			out.Left = append(out.Left, entry)
			continue
		}
		found, err := l.tryMerge(ctx, w, tip)
		if ctx.Err() != nil {
			return out, fmt.Errorf("merge %s: %w", entry, context.Cause(ctx))
		}
		m, ok := found.(*Merged)
		if err != nil || !ok {
			if err != nil {
				zerolog.Ctx(ctx).Warn().Str("change", entry).Err(err).Msg("left out of a build")
			}
			out.Left = append(out.Left, entry)
			continue
		}
		m.Entry, tip = entry, m.Tip
		out.Merged = append(out.Merged, *m)
	}
	if len(out.Left) == 0 && len(t.Set) > 0 {
		if len(l.builds) > 1_000 {
			clear(l.builds)
		}
		l.builds[setKey(t.Base, t.Set)] = out.Merged
	}
	return out, nil
}

// runAll judges the candidates of a round side by side.
func (l *Lander) runAll(ctx context.Context, out *Built, checks []config.Check) {
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := l.Now()
	ended := make(chan struct{}, len(out.Results))
	var tests sync.WaitGroup
	for i := range out.Results {
		tests.Go(func() {
			l.judge(running, &out.Results[i], checks)
			ended <- struct{}{}
		})
	}
	for range out.Results[1:] {
		select {
		case <-ended:
		case <-ctx.Done():
		}
		timer := time.AfterFunc(laggardTimes*l.Now().Sub(began)+laggardLeast, func() { cancel(errLaggard) })
		defer timer.Stop()
	}
	tests.Wait()
}

var errLaggard = errors.New("the other tests of its round ended long ago")

// judge fills in what the checks say of a candidate.
func (l *Lander) judge(ctx context.Context, t *BuiltTest, checks []config.Check) {
	if len(t.Merged) == 0 && len(t.Test.Set) > 0 {
		return // nothing of it merges
	}
	s := verify.Subject{Commit: git.Hash(t.Test.Base)}
	if n := len(t.Merged); n > 0 {
		s.Commit = t.Merged[n-1].Tip
	}
	report, err := l.verdict(ctx, s, checks, t)
	if err != nil {
		zerolog.Ctx(ctx).Error().Str("commit", s.Commit.Short()).Err(err).Msg("build has no verdict")
		t.Detail = err.Error()
		return
	}
	for _, o := range report.Outcomes {
		t.Evidence = append(t.Evidence, o.Evidence...)
		if o.Verdict != verify.Passed && t.Detail == "" {
			t.Detail = fmt.Sprintf("check %s %s", o.Check, o.Verdict)
			if o.Why != "" {
				t.Detail += ": " + o.Why
			}
		}
		if o.Verdict == verify.Failed && !o.Quarantined {
			t.Fails, t.Flake = max(t.Fails, o.Fails), max(t.Flake, o.Flake)
		}
	}
	switch report.All() {
	case verify.Passed:
		t.Verdict = plan.Passed
	case verify.Failed:
		t.Verdict = plan.Failed
	case verify.Broken, verify.Unknown:
	}
	zerolog.Ctx(ctx).Info().Str("commit", s.Commit.Short()).Int("changes", len(t.Merged)).Str("why", t.Test.Why).Str("verdict", string(report.All())).Msg("judged")
}

// maxAsk bounds the re-runs of a candidate while its verdict is not sure.
const maxAsk = 16

// verdict judges a candidate. Where a check both passed and failed on it, it runs
// again until one of them outvotes the other; where it only failed, the search
// says whether another run would tell more. A change that makes a check hang
// twice has failed it, if its base does not hang.
func (l *Lander) verdict(ctx context.Context, s verify.Subject, checks []config.Check, t *BuiltTest) (verify.Report, error) {
	report, err := l.Judge.Judge(ctx, s, checks, t.Test.Why == plan.WhyAgain)
	for range maxAsk {
		again := unsure(report, checks)
		if err != nil || len(again) == 0 {
			break
		}
		if _, err = l.Judge.Judge(ctx, s, again, true); err == nil {
			report, err = l.Judge.Judge(ctx, s, checks, false)
		}
	}
	if err != nil || len(t.Merged) != 1 || report.All() != verify.Unknown {
		return report, err
	}
	return l.hung(ctx, s, checks, report)
}

// unsure lists the checks that passed and failed and may yet go either way; none,
// when another one failed without a pass.
func unsure(report verify.Report, checks []config.Check) []config.Check {
	var again []config.Check
	for i, o := range report.Outcomes {
		switch {
		case o.Verdict != verify.Failed || o.Quarantined:
		case !o.Again || o.Passes == 0:
			return nil
		default:
			again = append(again, checks[i])
		}
	}
	return again
}

// hung judges again what timed out on one change alone, and takes a second
// time-out for a failure where the base passes.
func (l *Lander) hung(ctx context.Context, s verify.Subject, checks []config.Check, report verify.Report) (verify.Report, error) {
	slow := -1
	for i, o := range report.Outcomes {
		if o.Verdict == verify.Unknown && o.Timeouts > 0 {
			slow = i
		}
	}
	if slow < 0 {
		return report, nil
	}
	one := checks[slow : slow+1]
	if report.Outcomes[slow].Timeouts == 1 {
		again, err := l.Judge.Judge(ctx, s, one, true)
		if err != nil {
			return report, err
		}
		report.Outcomes[slow] = again.Outcomes[0]
	}
	c, err := l.Hub.Commit(s.Commit)
	if err != nil {
		return report, err
	}
	parent, err := l.Judge.Judge(ctx, verify.Subject{Commit: c.Parent()}, one, false)
	if err != nil {
		return report, err
	}
	o := &report.Outcomes[slow]
	if o.Verdict = o.Hung(parent.All()); o.Verdict == verify.Failed {
		o.Fails, o.Why = o.Timeouts, fmt.Sprintf("timed out %d times, and its base passes", o.Timeouts)
	}
	return report, nil
}

// stop ends a round whose results nobody will read.
func (l *Lander) stop(why error) {
	if l.round != nil {
		l.round.cancel(why)
		l.round.ended.Wait()
		l.round = nil
		l.state.busy = ""
	}
}

// buildingPath names the entries that are being built, for whoever lists the
// queue. It says something only while the lock on builds is held.
func (l *Lander) buildingPath() string {
	return filepath.Join(l.Hub.State(), "journal", "queue-building")
}

// buildsLock is the hub's lock on rounds of tests.
const buildsLock = "builds"

func (l *Lander) setBuilding(entries []string) error {
	path := l.buildingPath()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("note what is building: %w", err)
	}
	if err := os.WriteFile(path, []byte(strings.Join(entries, "\n")), 0o644); err != nil {
		return fmt.Errorf("note what is building: %w", err)
	}
	return nil
}

func (l *Lander) clearBuilding() error {
	if err := os.Remove(l.buildingPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("note that nothing is building: %w", err)
	}
	return nil
}

// Building are the entries that a lander builds now.
func (l *Lander) Building() ([]string, error) {
	data, err := os.ReadFile(l.buildingPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what is building: %w", err)
	}
	release, free, err := l.Hub.TryLock(buildsLock)
	if err != nil {
		return nil, err
	}
	if !free {
		return strings.Split(string(data), "\n"), nil
	}
	return nil, release()
}
