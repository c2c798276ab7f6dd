package green

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/verify"
)

// thousand is a world of 1,000 commits, one of which breaks a check.
func thousand() *model {
	return &model{n: 1000, breaks: map[int]string{617: "test"}, checks: []string{"build", "test"}}
}

// TestDecisionOverAThousandCommits holds the bound of one decision over two.
func TestDecisionOverAThousandCommits(t *testing.T) {
	m := thousand()
	in := m.frozen(RepairRevert)
	began := time.Now()
	s, _ := State{}.Step(Opened{in}, time.Time{})
	s.Step(Judged{Expected: m.checks, Seen: []Seen{{ID: "build", Verdict: verify.Passed, Passes: 1, Runs: 1}, {ID: "test", Verdict: verify.Failed, Fails: 1, Runs: 1}}}, time.Time{})
	if took := time.Since(began); took > 10*time.Millisecond {
		t.Errorf("two decisions took %s, and 10 ms is allowed for one", took)
	}
}

// BenchmarkDecision is one decision of the core with n = 1,000 commits.
func BenchmarkDecision(b *testing.B) {
	m := thousand()
	in := m.frozen(RepairRevert)
	judged := Judged{Expected: m.checks, Seen: []Seen{{ID: "build", Verdict: verify.Passed, Passes: 1, Runs: 1}, {ID: "test", Verdict: verify.Failed, Fails: 3, Runs: 3}}}
	for b.Loop() {
		s, _ := State{}.Step(Opened{in}, time.Time{})
		s, _ = s.Step(judged, time.Time{})
		s.Step(Recalled{}, time.Time{})
	}
}

// passing is a judge that knows nothing bad.
type passing struct{ runs int }

func (p *passing) Judge(_ context.Context, s verify.Subject, checks []config.Check, _ bool) (verify.Report, error) {
	p.runs++
	return p.Known(s, checks)
}

func (p *passing) Known(s verify.Subject, checks []config.Check) (verify.Report, error) {
	r := verify.Report{Tree: s.Tree}
	for _, k := range checks {
		r.Outcomes = append(r.Outcomes, verify.Outcome{Check: k.Name, Def: k.Def(), Required: true, Verdict: verify.Passed, Passes: 1, Runs: 1})
	}
	return r, nil
}

// BenchmarkWarmSnapshot is one whole cycle that promotes, on a repository of
// 5,000 files, checks excluded.
func BenchmarkWarmSnapshot(b *testing.B) {
	dir := gittest.Bare(b)
	files := map[string]string{".greenward.yml": "checks: [{name: ok, run: \"true\"}]\n"}
	for n := range 5000 {
		files[fmt.Sprintf("d%02d/s%d/f%d.txt", n%50, n%7, n)] = strings.Repeat("text\n", n%40)
	}
	gittest.Commit(b, dir, "main", "begin", files)
	hub, err := git.OpenHub(b.Context(), git.HubInput{Dir: dir, Host: gittest.Host(b)})
	if err != nil {
		b.Fatal(err)
	}
	key, err := git.LoadKey(filepath.Join(b.TempDir(), "key"))
	if err != nil {
		b.Fatal(err)
	}
	e := &Engine{Hub: hub, Judge: &passing{}, Signer: key, Now: gittest.Clock(), By: "bench"}
	n := 0
	for b.Loop() {
		b.StopTimer()
		n++
		gittest.Commit(b, dir, "main", "more", map[string]string{fmt.Sprintf("new/%d", n): "x\n"})
		b.StartTimer()
		if r, err := e.Cycle(b.Context()); err != nil || !r.Promoted {
			b.Fatal(r, err)
		}
	}
}
