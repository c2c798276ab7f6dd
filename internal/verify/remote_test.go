package verify

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"greenward/internal/config"
	"greenward/internal/gittest"
)

// said is a run of a forge's check, id and conclusion.
func said(id, conclusion string) Reported {
	return Reported{Check: "CI / e2e", ID: id, Conclusion: Conclusion{Name: conclusion, Reached: true}}
}

func remote(name, forge string, renamed ...string) config.Check {
	return config.Check{Name: name, Remote: forge, Renamed: renamed, Required: true}
}

func TestRecordedRunsOfAForge(t *testing.T) {
	empty, filtered := said("1", "success"), said("1", "failure")
	empty.Reached, filtered.NoTests = false, true
	needless := said("1", "skipped")
	needless.NotNeeded = true
	checkout := said("1", "failure")
	checkout.Reached = false
	cut := said("1", "failure")
	cut.Interrupted = true
	tests := []struct {
		name string
		told [][]Reported // one Record each
		want Verdict
		why  Cause
		runs int
	}{
		{"absent", [][]Reported{nil}, Unknown, CauseAbsent, 0},
		{"success", [][]Reported{{said("1", "success")}}, Passed, "", 1},
		{"Q20 told again and again", [][]Reported{{said("1", "")}, {said("1", "success")}, {said("1", "success")}, {said("1", "success")}}, Passed, "", 1},
		{"Q20 G04 not all have ended", [][]Reported{{said("1", "")}}, Unknown, CausePending, 0},
		{"Q17 failed and asked for again: the gap", [][]Reported{{said("1", "failure")}, nil}, Failed, CauseExit, 1},
		{"Q17 failed, and the next attempt runs", [][]Reported{{said("1", "failure")}, {said("1", "failure"), said("2", "")}}, Unknown, CausePending, 1},
		{"Q17 failed twice, and the next attempt runs", [][]Reported{{said("1", "failure"), said("2", "failure"), said("3", "")}}, Failed, CauseExit, 2},
		{"Q17 failed and passed once", [][]Reported{{said("1", "failure")}, {said("2", "success")}}, Failed, CauseExit, 2},
		{"Q17 failed and passed until it counts", [][]Reported{{said("1", "failure")}, {said("2", "success")}, {said("3", "success")}}, Passed, "", 3},
		{"Q18 skipped", [][]Reported{{said("1", "skipped")}}, Unknown, CauseSkipped, 1},
		{"Q18 skipped, and by our own rule not needed", [][]Reported{{needless}}, Passed, CauseSkipped, 1},
		{"Q18 neutral", [][]Reported{{said("1", "neutral")}}, Unknown, CauseNeutral, 1},
		{"Q19 one name, several runs: never the best of them", [][]Reported{{said("1", "success"), said("2", "failure")}}, Failed, CauseExit, 2},
		{"a forge that changes its mind said both", [][]Reported{{said("1", "failure")}, {said("1", "success")}}, Failed, CauseExit, 2},
		{"G09 ran nothing", [][]Reported{{empty}}, Unknown, CauseEmpty, 1},
		{"G24 a filter that matched nothing", [][]Reported{{filtered}}, Unknown, CauseEmpty, 1},
		{"G19 cancelled after a failure", [][]Reported{{said("1", "failure")}, {said("2", "cancelled")}}, Failed, CauseExit, 2},
		{"G19 skipped after a failure", [][]Reported{{said("1", "failure")}, {said("2", "skipped")}}, Failed, CauseExit, 2},
		{"G21 no checkout", [][]Reported{{checkout}}, Broken, CauseWorkspace, 1},
		{"G21 its step was cancelled", [][]Reported{{cut}}, Broken, CauseCancelled, 1},
		{"G23 stale", [][]Reported{{said("1", "stale")}}, Unknown, CauseCancelled, 1},
		{"G23 action required", [][]Reported{{said("1", "action_required")}}, Unknown, CausePerson, 1},
		{"G23 startup failure", [][]Reported{{said("1", "startup_failure")}}, Broken, CauseWorkspace, 1},
		{"G03 timed out", [][]Reported{{said("1", "timed_out")}}, Unknown, CauseTimeout, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			s := b.commit(t, map[string]string{"a": "1\n"})
			var report Report
			for _, told := range tt.told {
				var err error
				if report, err = b.runner.Record(t.Context(), s, []config.Check{remote("e2e", "CI / e2e")}, told); err != nil {
					t.Fatal(err)
				}
			}
			o := report.Outcomes[0]
			if o.Verdict != tt.want || o.Cause != tt.why || o.Runs != tt.runs {
				t.Errorf("got %s (%s) of %d runs, want %s (%s) of %d: %s", o.Verdict, o.Cause, o.Runs, tt.want, tt.why, tt.runs, o.Why)
			}
			if o.Verdict != Passed && o.Why == "" {
				t.Error("no reason")
			}
			if o.Again {
				t.Error("a check of the forge is to run again here")
			}
		})
	}
}

func TestG11OnlySomeOfTheExpectedChecks(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1\n"})
	var checks []config.Check
	var told []Reported
	for i := range 5 {
		name := fmt.Sprintf("check-%d", i)
		checks = append(checks, remote(name, name))
		told = append(told, Reported{Check: name, ID: "1", Conclusion: Conclusion{Name: "success", Reached: true}})
	}
	told = append(told, Reported{Check: "check", ID: "1", Conclusion: Conclusion{Name: "success", Reached: true}}) // G14: no prefix of one
	report, err := b.runner.Record(t.Context(), s, checks, append(told[:3:3], told[5]))
	if err != nil || report.Verdict() != Unknown {
		t.Errorf("three of five: %s, %v; want unknown", report.Verdict(), err)
	}
	if report, err = b.runner.Record(t.Context(), s, checks, told); err != nil || report.Verdict() != Passed {
		t.Errorf("all: %s, %v; want passed", report.Verdict(), err)
	}
	if _, err := b.runner.Record(t.Context(), s, nil, told); !errors.Is(err, config.ErrNoChecks) {
		t.Errorf("none expected: %v, want ErrNoChecks", err)
	}
}

func TestG10WhatRanElsewhereIsNoVerdictHere(t *testing.T) {
	b := newBench(t)
	periodic := []config.Check{remote("periodic", "periodic")}
	tell := func(s Subject, id, conclusion string) {
		t.Helper()
		if _, err := b.runner.Record(t.Context(), s, periodic, []Reported{{Check: "periodic", ID: id, Conclusion: Conclusion{Name: conclusion, Reached: true}}}); err != nil {
			t.Fatal(err)
		}
	}
	c5 := b.commit(t, map[string]string{"a": "5\n"})
	c6 := b.commit(t, map[string]string{"a": "6\n"})
	c10 := b.commit(t, map[string]string{"a": "10\n"})
	tell(c5, "1", "failure")
	tell(c10, "2", "success")
	for _, tt := range []struct {
		name string
		s    Subject
		want Verdict
	}{{"the commit that failed", c5, Failed}, {"the one after it, where it never ran", c6, Unknown}, {"the one that passed", c10, Passed}} {
		if report, err := b.runner.Known(tt.s, periodic); err != nil || report.Verdict() != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.name, report.Verdict(), err, tt.want)
		}
	}
}

func TestG13ARenamedCheckIsOneCheck(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1\n"})
	told := []Reported{{Check: "test-linux", ID: "1", Conclusion: Conclusion{Name: "failure", Reached: true}}, {Check: "lint", ID: "1", Conclusion: Conclusion{Name: "success", Reached: true}}}
	report, err := b.runner.Record(t.Context(), s, []config.Check{remote("test", "test")}, told)
	if err != nil {
		t.Fatal(err)
	}
	if o := report.Outcomes[0]; o.Cause != CauseAbsent || !strings.Contains(o.Why, `it reports "test-linux", "lint"`) {
		t.Errorf("without the rename: %s, %q; want absent, and the names that are there, nearest first", o.Cause, o.Why)
	}
	renamed := []config.Check{remote("test", "test", "test-linux")}
	if report, err = b.runner.Record(t.Context(), s, renamed, told); err != nil || report.Verdict() != Failed {
		t.Errorf("with it: %s, %v; want failed", report.Verdict(), err)
	}
	// Evidence under either name is evidence of one check: a pass under the old name does not clear it.
	old := []Reported{{Check: "test", ID: "2", Conclusion: Conclusion{Name: "success", Reached: true}}}
	if report, err = b.runner.Record(t.Context(), s, renamed, old); err != nil || report.Outcomes[0].Runs != 2 || report.Verdict() != Failed {
		t.Errorf("both names: %+v, %v; want failed, two runs", report.Outcomes[0], err)
	}
	if report, err = b.runner.Record(t.Context(), b.commit(t, map[string]string{"a": "2\n"}), renamed, nil); err != nil || report.Verdict() != Unknown {
		t.Errorf("neither name: %s, %v; want unknown", report.Verdict(), err)
	}
}

// What the forge said last of a commit is no evidence, and every process on the
// hub answers by it: a run that goes is pending, and a check that never came is
// told from one that has another name now.
func TestJudgeKnowsWhatTheForgeSaidLast(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1\n"})
	e2e := remote("e2e", "CI / e2e")
	tell := func(told ...Reported) {
		t.Helper()
		if _, err := b.runner.Record(t.Context(), s, []config.Check{e2e}, told); err != nil {
			t.Fatal(err)
		}
	}
	judged := func() Outcome {
		return openBench(t, b.dir, b.runner.Host).judge(t, s, check("here", "true"), e2e).Outcomes[1]
	}
	if o := judged(); o.Verdict != Unknown || o.Cause != CauseAbsent {
		t.Errorf("never told: %+v", o)
	}
	tell(said("1", ""))
	if o := judged(); o.Verdict != Unknown || o.Cause != CausePending || o.Runs != 0 {
		t.Errorf("it goes: %+v", o)
	}
	writeFile(t, b.runner.talesPath(), "[{torn")
	if o := judged(); o.Cause != CauseAbsent {
		t.Errorf("torn: %+v", o)
	}
	tell(Reported{Check: "CI / e2e-linux", ID: "1", Conclusion: Conclusion{Name: "success", Reached: true}})
	if o := judged(); o.Cause != CauseAbsent || !strings.Contains(o.Why, `it reports "CI / e2e-linux"`) {
		t.Errorf("by another name: %+v", o)
	}
	for i := range maxTold + 5 { // of the newest commits only
		if err := b.runner.remember(nth(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if told, err := b.runner.told(); err != nil || len(told) != maxTold {
		t.Errorf("%d commits are kept, %v", len(told), err)
	}
	tell(said("1", "success"))
	if o := judged(); o.Verdict != Passed || o.Runs != 1 {
		t.Errorf("it ended: %+v", o)
	}
}

// Q25: a pass that came sooner than a run can take that did anything is none; how long
// is the policy's to say, and where the forge tells no start nothing is known of it.
func TestQ25PassThatCameTooSoonIsNone(t *testing.T) {
	at := gittest.Start()
	took := func(id string, d time.Duration) Reported {
		one := said(id, "success")
		one.Started, one.Finished = at, at.Add(d)
		return one
	}
	b := newBench(t)
	quick := remote("e2e", "CI / e2e")
	quick.AtLeast = 30 * time.Second
	for i, tt := range []struct {
		told  Reported
		check config.Check
		want  Verdict
	}{
		{took("1", 2*time.Second), quick, Unknown},
		{took("2", 30*time.Second), quick, Passed},
		{took("3", 2*time.Second), remote("e2e", "CI / e2e"), Passed},
		{said("4", "success"), quick, Passed},
	} {
		s := b.commit(t, map[string]string{"a": fmt.Sprint(i, "\n")})
		report, err := b.runner.Record(t.Context(), s, []config.Check{tt.check}, []Reported{tt.told})
		if err != nil {
			t.Fatal(err)
		}
		if o := report.Outcomes[0]; o.Verdict != tt.want || tt.want != Passed && !strings.Contains(o.Why, "less than at_least: 30s allows") {
			t.Errorf("%d: %s (%s), want %s", i, o.Verdict, o.Why, tt.want)
		}
	}
}
