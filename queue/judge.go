package queue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"greenward/internal/config"
	"greenward/internal/proc"
	"greenward/internal/verify"
)

// judge asks the Judge for a verdict on a candidate.
func (l *Lander) judge(ctx context.Context, e JudgeTip) (Event, error) {
	if err := errors.Join(l.setBuilding(e.Entry), l.stage.Flush(ctx)); err != nil {
		return nil, err
	}
	report, err := l.verdict(ctx, verify.Subject{Commit: e.Tip})
	if cleared := l.clearBuilding(); cleared != nil {
		return nil, errors.Join(err, cleared)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("judge %s: %w", e.Entry, context.Cause(ctx))
	}
	if err != nil {
		return l.stumble(ctx, e.Entry, fmt.Errorf("judge %s: %w", e.Entry, err)), nil
	}
	j := Judged{Entry: e.Entry, Tip: e.Tip, Verdict: report.All()}
	for _, o := range report.Outcomes {
		j.Evidence = append(j.Evidence, o.Evidence...)
		if o.Verdict != verify.Passed && j.Detail == "" {
			j.Detail = fmt.Sprintf("check %s %s", o.Check, o.Verdict)
			if o.Why != "" {
				j.Detail += ": " + o.Why
			}
		}
	}
	zerolog.Ctx(ctx).Info().Str("change", e.Entry).Str("commit", e.Tip.Short()).Str("verdict", string(j.Verdict)).Msg("judged")
	return j, nil
}

// maxAsk bounds the re-runs of a candidate while its failure is not sure.
const maxAsk = 16

// verdict judges a candidate. A check that failed runs again until the failure
// is sure or outvoted: nobody is sent away for a flake.
func (l *Lander) verdict(ctx context.Context, s verify.Subject) (verify.Report, error) {
	checks := l.checks()
	report, err := l.Judge.Judge(ctx, s, checks, false)
	for range maxAsk {
		again := unsure(report, checks)
		if err != nil || len(again) == 0 {
			break
		}
		if _, err = l.Judge.Judge(ctx, s, again, true); err == nil {
			report, err = l.Judge.Judge(ctx, s, checks, false)
		}
	}
	return report, err
}

// unsure lists the checks that failed and may yet pass; none, when another
// failed for sure.
func unsure(report verify.Report, checks []config.Check) []config.Check {
	var again []config.Check
	for i, o := range report.Outcomes {
		switch {
		case o.Verdict != verify.Failed || o.Quarantined:
		case !o.Again:
			return nil
		default:
			again = append(again, checks[i])
		}
	}
	return again
}

// buildingPath names the entry that is being judged, for whoever lists the
// queue. It says something only while the lander lock is held.
func (l *Lander) buildingPath() string {
	return filepath.Join(l.Hub.State(), "journal", "queue-building")
}

func (l *Lander) setBuilding(entry string) error {
	path := l.buildingPath()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("note what is building: %w", err)
	}
	if err := os.WriteFile(path, []byte(entry), 0o644); err != nil {
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

// building is the entry that a lander judges now; empty: none.
func (l *Lander) building() (string, error) {
	entry, err := os.ReadFile(l.buildingPath())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read what is building: %w", err)
	}
	release, err := proc.Lock(l.lockPath())
	if errors.Is(err, proc.ErrLocked) {
		return string(entry), nil
	}
	if err != nil {
		return "", err
	}
	return "", release()
}
