package verify

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"greenward/internal/config"
	"greenward/internal/git"
)

// testCheck is the check of someRun.
func testCheck() config.Check { return check("test", "true") }

// nth is a tree, or commit, that nobody has.
func nth(i int) git.Hash { return git.Hash(fmt.Sprintf("%040x", i+1)) }

// outcome is what the ledger says of the test check on an object.
func (b *bench) outcome(tb testing.TB, on git.Hash) Outcome {
	tb.Helper()
	o, err := b.ledger.known(Subject{Tree: on, Commit: on}, testCheck())
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

func TestG01HistoryOfTheCheckSetsThePasses(t *testing.T) {
	tests := []struct {
		name     string
		quiet    int // other trees that passed once
		flaky    int // and that failed once and passed three times
		broken   int // and that failed twice
		want     int // passes that clear a failure
		distrust bool
	}{
		{name: "no history", want: 2},
		{name: "a solid check", quiet: 250, want: 4},
		{name: "a flaky check", quiet: 20, flaky: 20, want: 1},
		{name: "breaks are no flakes", broken: 40, want: 2},
		{name: "lines of strangers count for nothing", flaky: 40, want: 2, distrust: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			var runs []Run
			put := func(on git.Hash, verdicts ...Verdict) {
				for i, v := range verdicts {
					run := someRun(on, fmt.Sprintf("r%d", i), v)
					if !tt.distrust || on == nth(0) {
						run = signed(t, b.signer, run)
					}
					runs = append(runs, run)
				}
			}
			put(nth(0), Failed)
			at := 1
			for range tt.quiet {
				put(nth(at), Passed)
				at++
			}
			for range tt.flaky {
				put(nth(at), Failed, Passed, Passed, Passed)
				at++
			}
			for range tt.broken {
				put(nth(at), Failed, Failed)
				at++
			}
			add(t, b.ledger, runs...)
			o := b.outcome(t, nth(0))
			if o.Verdict != Failed || o.Missing(Sure) != tt.want {
				t.Errorf("got %s and %d passes to clear it (flake rate %.4f), want failed and %d", o.Verdict, o.Missing(Sure), o.Flake, tt.want)
			}
		})
	}
}

// A pass never erases a failure: it is outvoted, and what it takes is known
// beforehand.
func TestG01PassesOutvoteAFailure(t *testing.T) {
	b := newBench(t)
	flag := filepath.Join(t.TempDir(), "flag")
	s := b.commit(t, map[string]string{"a": "1\n"})
	c := check("flaky", "test -e "+flag+" || { touch "+flag+"; exit 1; }")
	o := b.only(t, s, c)
	for _, want := range []struct {
		verdict Verdict
		missing int
	}{{Failed, 2}, {Failed, 1}, {Passed, 0}} {
		if o.Verdict != want.verdict || o.Missing(Sure) != want.missing || o.Again != (want.missing > 0) || o.Fails != 1 {
			t.Fatalf("got %s, %d missing, again %v, %d failures; want %+v", o.Verdict, o.Missing(Sure), o.Again, o.Fails, want)
		}
		needs, err := b.runner.Needs(s, []config.Check{c})
		if err != nil || len(needs) != min(want.missing, 1) {
			t.Fatalf("needs %d checks, %v; want %d", len(needs), err, min(want.missing, 1))
		}
		if want.missing == 0 {
			break
		}
		report, err := b.runner.Judge(t.Context(), s, needs, true)
		if err != nil {
			t.Fatal(err)
		}
		o = report.Outcomes[0]
	}
	if want := "passed 2 times and failed 1 times: good with"; len(o.Why) < len(want) || o.Why[:len(want)] != want {
		t.Errorf("why: %q", o.Why)
	}
}

func TestG08TwoFailuresNeedNoThirdRun(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1\n"})
	c := check("bad", "exit 1")
	if o := b.only(t, s, c); !o.Again {
		t.Errorf("after one failure: %+v, want to run again", o)
	}
	report, err := b.runner.Judge(t.Context(), s, []config.Check{c}, true)
	if err != nil {
		t.Fatal(err)
	}
	if o := report.Outcomes[0]; o.Again || o.Verdict != Failed {
		t.Errorf("after two: %+v, want failed for sure", o)
	}
}

func TestG05QuarantineIsLeftOutUntilItIsOver(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1\n"})
	red := check("red", "exit 1")
	red.Quarantine = config.Quarantine{Owner: "ann@example.com", Until: b.runner.Now().Add(time.Hour), Reason: "port taken"}
	checks := []config.Check{check("good", "true"), red}
	report := b.judge(t, s, checks...)
	o := report.Outcomes[1]
	if report.Verdict() != Passed || report.All() != Passed || len(report.Failing()) != 0 {
		t.Errorf("in quarantine: %s, want passed", report.Verdict())
	}
	if o.Verdict != Failed || !o.Quarantined || o.Quarantine != red.Quarantine || o.Again {
		t.Errorf("the check itself: %+v, want failed, in quarantine, and no more runs", o)
	}
	if needs, err := b.runner.Needs(s, checks); err != nil || len(needs) != 0 {
		t.Errorf("needs %v, %v; want none", needs, err)
	}
	if report := b.judge(t, s, red); report.Verdict() != Unknown {
		t.Errorf("nothing but a quarantine: %s, want unknown", report.Verdict())
	}

	at := red.Quarantine.Until
	b.runner.Now = func() time.Time { return at }
	report = b.judge(t, s, checks...)
	o = report.Outcomes[1]
	if report.Verdict() != Unknown || o.Verdict != Unknown || o.Cause != CauseQuarantine || o.Quarantined || o.Again {
		t.Errorf("when it is over: %s, %+v; want unknown", report.Verdict(), o)
	}
	red.Run, checks[1].Run = "true", "true"
	if report := b.judge(t, s, checks...); report.Verdict() != Unknown {
		t.Errorf("when it is over and the check passes: %s, want unknown until the policy says so", report.Verdict())
	}
}

// What a soak is measured from comes from the ledger: neither a newer commit
// nor a new process begins it anew.
func TestG18SoakIsMeasuredFromTheLedger(t *testing.T) {
	b := newBench(t)
	at := b.runner.Now()
	b.runner.Now = func() time.Time { return at }
	s := b.commit(t, map[string]string{"a": "1\n"})
	slow, quick := check("slow", "true"), check("quick", "true")
	b.judge(t, s, quick)
	accepted := at.Add(20 * time.Minute)
	at = accepted
	if since := b.judge(t, s, quick, slow).Since(); !since.Equal(accepted) {
		t.Errorf("since %s, want %s: when the last check passed", since, accepted)
	}
	at = accepted.Add(time.Hour)
	b.judge(t, b.commit(t, map[string]string{"a": "2\n"}), quick, slow) // a newer candidate
	again := openBench(t, b.dir, b.runner.Host)                         // another life
	report, err := again.runner.Known(s, []config.Check{quick, slow})
	if err != nil || !report.Since().Equal(accepted) {
		t.Errorf("later: since %s, %v; want %s still", report.Since(), err, accepted)
	}
	if _, err := b.runner.Judge(t.Context(), s, []config.Check{quick}, true); err != nil { // another pass changes nothing
		t.Fatal(err)
	}
	if since := b.judge(t, s, quick, slow).Since(); !since.Equal(accepted) {
		t.Errorf("after one more pass: since %s, want %s", since, accepted)
	}
	if since := b.judge(t, s, quick, check("bad", "exit 1")).Since(); !since.IsZero() {
		t.Errorf("a failing tree soaks since %s", since)
	}
}

// A failure that was outvoted begins the soak when it was outvoted.
func TestG18SoakBeginsWhenAFailureIsCleared(t *testing.T) {
	b := newBench(t)
	start := someRun(nth(0), "x", Passed).Started
	for i, v := range []Verdict{Passed, Failed, Passed, Passed} {
		run := someRun(nth(0), fmt.Sprintf("r%d", i), v)
		run.Started = start.Add(time.Duration(i) * time.Minute)
		run.Finished = run.Started.Add(time.Second)
		add(t, b.ledger, signed(t, b.signer, run))
	}
	o := b.outcome(t, nth(0))
	if want := start.Add(2*time.Minute + time.Second); o.Verdict != Passed || !o.Since.Equal(want) {
		t.Errorf("%s since %s, want passed since %s", o.Verdict, o.Since, want)
	}
}

// A test that is born red has no pass before it: the first commit that has it
// fails by its name, sure after the second run, and its parent does not.
func TestG25BornRed(t *testing.T) {
	b := newBench(t)
	c := check("test", "cat report")
	c.Report = "tap"
	before := b.commit(t, map[string]string{"report": "1..1\nok 1 - old\n"})
	born := b.commit(t, map[string]string{"report": "1..2\nok 1 - old\nnot ok 2 - T\n"})
	if o := b.only(t, before, c); o.Verdict != Passed || o.Failing != nil {
		t.Errorf("before: %+v, want passed", o)
	}
	b.only(t, born, c)
	if _, err := b.runner.Judge(t.Context(), born, []config.Check{c}, true); err != nil {
		t.Fatal(err)
	}
	report, err := openBench(t, b.dir, b.runner.Host).runner.Known(born, []config.Check{c}) // as another process reads it
	if err != nil {
		t.Fatal(err)
	}
	if o := report.Outcomes[0]; o.Verdict != Failed || o.Fails != 2 || o.Again || len(o.Failing) != 1 || o.Failing[0] != "T" {
		t.Errorf("born red: %+v, want failed for sure, by T", o)
	}
}

// An artefact that the policy wants and that is not there is no pass.
func TestG20MissingArtefact(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1\n"})
	upload := check("bin", "test -s out/bin || echo nothing was uploaded")
	upload.Report = "junit:out/bin.xml"
	if report := b.judge(t, s, upload); report.Verdict() != Unknown || report.Outcomes[0].Cause != CauseEmpty {
		t.Errorf("got %+v, want unknown for want of a report", report.Outcomes[0])
	}
	needed := check("needed", "test -s out/bin")
	if report := b.judge(t, s, needed); report.Verdict() != Failed {
		t.Errorf("got %s, want failed", report.Verdict())
	}
}
