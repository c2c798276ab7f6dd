package verify

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// bench is a hub with everything that judging needs.
type bench struct {
	dir    string
	repo   *git.Repo
	signer git.Signer
	ledger *Ledger
	runner *Runner
}

func newBench(tb testing.TB) *bench {
	tb.Helper()
	return openBench(tb, gittest.Bare(tb), gittest.Host(tb))
}

func openBench(tb testing.TB, dir string, host proc.Host) *bench {
	tb.Helper()
	b := &bench{dir: dir}
	var err error
	if b.repo, err = git.Open(tb.Context(), dir, host); err != nil {
		tb.Fatal(err)
	}
	state := filepath.Join(dir, "greenward")
	if b.signer, err = git.LoadKey(filepath.Join(state, "key")); err != nil {
		tb.Fatal(err)
	}
	if b.ledger, err = OpenLedger(b.repo, []string{b.signer.Public()}); err != nil {
		tb.Fatal(err)
	}
	b.runner = &Runner{
		Repo: b.repo, Ledger: b.ledger, State: state, Signer: b.signer, Now: gittest.Clock(), Host: host, Slots: 2, Name: "test",
	}
	return b
}

func (b *bench) commit(tb testing.TB, files map[string]string) Subject {
	tb.Helper()
	return Subject{Commit: git.Hash(gittest.Commit(tb, b.dir, "main", "work", files))}
}

func (b *bench) judge(tb testing.TB, s Subject, checks ...config.Check) Report {
	tb.Helper()
	report, err := b.runner.Judge(tb.Context(), s, checks, false)
	if err != nil {
		tb.Fatal(err)
	}
	return report
}

// only is the outcome of a check that is judged alone.
func (b *bench) only(tb testing.TB, s Subject, c config.Check) Outcome {
	tb.Helper()
	return b.judge(tb, s, c).Outcomes[0]
}

func check(name, run string) config.Check {
	return config.Check{Name: name, Run: run, Timeout: time.Minute, Report: "none", Required: true}
}

// someRun is a valid line on an object.
func someRun(on git.Hash, id string, v Verdict) Run {
	at := gittest.Start()
	return Run{
		Key: topic{on: on, check: "test", def: check("test", "true").Def()}.key(id), Tree: on, Commit: on, Check: "test",
		Def: check("test", "true").Def(), Run: id, Verdict: v, Started: at, Finished: at.Add(time.Second), Runner: "test",
	}
}

func signed(tb testing.TB, signer git.Signer, r Run) Run {
	tb.Helper()
	out, err := r.Signed(signer)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func add(tb testing.TB, l *Ledger, runs ...Run) {
	tb.Helper()
	if err := l.Add(tb.Context(), runs); err != nil {
		tb.Fatal(err)
	}
}

func writeFile(tb testing.TB, path, content string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		tb.Fatal(err)
	}
}

func readFile(tb testing.TB, path string) string {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}
