package verify

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestConclude(t *testing.T) {
	tests := []struct {
		name  string
		end   Ending
		tally *Tally
		want  Verdict
		cause Cause
	}{
		{"exit 0", Ending{}, nil, Passed, ""},
		{"exit 0 and tests", Ending{}, &Tally{Seen: true, Ran: 3}, Passed, ""},
		{"G09 all skipped", Ending{}, &Tally{Seen: true, Skipped: 3}, Unknown, CauseEmpty},
		{"report promised and absent", Ending{}, &Tally{}, Unknown, CauseEmpty},
		{"exit 0 that lies", Ending{}, &Tally{Seen: true, Ran: 3, Failed: 1}, Failed, CauseReport},
		{"exit 1", Ending{Code: 1}, nil, Failed, CauseExit},
		{"exit 1 without any report", Ending{Code: 1}, &Tally{}, Failed, CauseExit},
		{"G24 a filter that matched nothing", Ending{Code: 1}, &Tally{Seen: true}, Unknown, CauseEmpty},
		{"build failure", Ending{Code: 1}, &Tally{Seen: true, Failed: 1}, Failed, CauseExit},
		{"not found", Ending{Code: 127}, nil, Broken, CauseMissing},
		{"not executable", Ending{Code: 126}, &Tally{Seen: true, Failed: 1}, Broken, CauseMissing},
		{"G21 out of memory below sh", Ending{Code: 137}, nil, Broken, CauseKilled},
		{"G21 out of memory", Ending{Code: 137, Signal: "killed"}, nil, Broken, CauseKilled},
		{"crash", Ending{Code: 139, Signal: "segmentation fault"}, nil, Failed, CauseExit},
		{"G03 hang", Ending{TimedOut: true, Code: 143}, nil, Unknown, CauseTimeout},
		{"G03 hang that then says 0", Ending{TimedOut: true}, &Tally{Seen: true, Ran: 9}, Unknown, CauseTimeout},
		{"disk full", Ending{Code: 1, DiskFull: true}, nil, Broken, CauseWorkspace},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Conclude(tt.end, tt.tally)
			if got.Verdict != tt.want || got.Cause != tt.cause {
				t.Errorf("got %+v, want %s (%s)", got, tt.want, tt.cause)
			}
			if got.Verdict != Passed && got.Why == "" {
				t.Errorf("%s without a reason", got.Verdict)
			}
		})
	}
}

func TestG23EveryConclusionOfAForge(t *testing.T) {
	tests := []struct {
		in   Conclusion
		want Verdict
	}{
		{Conclusion{Name: "success", Reached: true}, Passed},
		{Conclusion{Name: "success"}, Unknown},
		{Conclusion{Name: "failure", Reached: true}, Failed},
		{Conclusion{Name: "failure"}, Broken},
		{Conclusion{Name: "failure", Reached: true, Interrupted: true}, Broken},
		{Conclusion{Name: "failure", Reached: true, NoTests: true}, Unknown},
		{Conclusion{Name: "timed_out", Reached: true}, Unknown},
		{Conclusion{Name: "cancelled"}, Unknown},
		{Conclusion{Name: "stale"}, Unknown},
		{Conclusion{Name: "skipped"}, Unknown},
		{Conclusion{Name: "skipped", NotNeeded: true}, Passed},
		{Conclusion{Name: "neutral"}, Unknown},
		{Conclusion{Name: "neutral", NeutralOK: true}, Passed},
		{Conclusion{Name: "action_required"}, Unknown},
		{Conclusion{Name: "startup_failure"}, Broken},
		{Conclusion{Name: "startup_failure", EditsCI: true}, Failed},
		{Conclusion{Name: ""}, Unknown},
		{Conclusion{Name: "of a later year"}, Unknown},
	}
	reasons := map[string]Conclusion{}
	for _, tt := range tests {
		got := Adopt(tt.in)
		if got.Verdict != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.in, got.Verdict, tt.want)
		}
		if got.Why == "" && tt.in.Name != "success" {
			t.Errorf("%+v: no reason", tt.in)
		}
		if other, ok := reasons[got.Why]; ok && got.Why != "" {
			t.Errorf("%+v and %+v have the same reason %q", tt.in, other, got.Why)
		}
		reasons[got.Why] = tt.in
	}
}

func TestCombine(t *testing.T) {
	at := func(second int, v Verdict) Run {
		return Run{Verdict: v, Finished: time.Unix(int64(second), 0)}
	}
	tests := []struct {
		name string
		runs []Run
		want Verdict
	}{
		{"nothing", nil, Unknown},
		{"pass", []Run{at(1, Passed)}, Passed},
		{"fail", []Run{at(1, Failed)}, Failed},
		{"a pass does not erase a failure", []Run{at(1, Failed), at(2, Passed)}, Failed},
		{"nor the other way round", []Run{at(1, Passed), at(2, Failed)}, Failed},
		{"two of three", []Run{at(1, Failed), at(2, Passed), at(3, Passed)}, Passed},
		{"G19 cancelled never clears a failure", []Run{at(1, Failed), at(2, Unknown)}, Failed},
		{"a time-out does not taint a pass", []Run{at(1, Unknown), at(2, Passed)}, Passed},
		{"the newest of what says nothing", []Run{at(1, Unknown), at(2, Broken)}, Broken},
		{"the newest of what says nothing", []Run{at(1, Broken), at(2, Unknown)}, Unknown},
	}
	for _, tt := range tests {
		if got := Combine(tt.runs, Noise{}); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestCombineProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		verdict := rapid.SampledFrom([]Verdict{Passed, Failed, Broken, Unknown})
		runs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Run {
			return Run{Verdict: verdict.Draw(t, "verdict"), Finished: time.Unix(rapid.Int64Range(0, 5).Draw(t, "at"), 0)}
		}), 0, 8).Draw(t, "runs")
		got := Combine(runs, Noise{})
		shuffled := append([]Run(nil), runs...)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		if again := Combine(shuffled, Noise{}); again != got {
			t.Fatalf("order matters: %s, then %s", got, again)
		}
		passes, fails := 0, 0
		for _, r := range runs {
			switch r.Verdict {
			case Passed:
				passes++
			case Failed:
				fails++
			}
		}
		if got == Passed && (passes == 0 || fails > 0 && passes <= fails) {
			t.Fatalf("passed with %d passes and %d failures", passes, fails)
		}
		if fails > 0 && got != Failed && got != Passed {
			t.Fatalf("a failure became %s", got)
		}
	})
}

func TestReportVerdict(t *testing.T) {
	of := func(v Verdict) Outcome { return Outcome{Check: string(v), Required: true, Verdict: v} }
	optional := Outcome{Check: "lint", Verdict: Failed}
	tests := []struct {
		name     string
		outcomes []Outcome
		want     Verdict
	}{
		{"no outcome is no pass", nil, Unknown},
		{"only optional ones are no pass", []Outcome{{Check: "lint", Verdict: Passed}}, Unknown},
		{"all passed", []Outcome{of(Passed), of(Passed), optional}, Passed},
		{"G04 one still unknown", []Outcome{of(Passed), of(Unknown)}, Unknown},
		{"failed before broken", []Outcome{of(Passed), of(Broken), of(Failed), of(Unknown)}, Failed},
		{"broken before unknown", []Outcome{of(Unknown), of(Broken)}, Broken},
	}
	for _, tt := range tests {
		if got := (Report{Outcomes: tt.outcomes}).Verdict(); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	r := Report{Outcomes: []Outcome{of(Passed), of(Broken), optional}}
	if diff := cmp.Diff([]Outcome{of(Broken)}, r.Failing()); diff != "" {
		t.Errorf("failing (-want +got):\n%s", diff)
	}
	if got := r.All(); got != Failed {
		t.Errorf("all: got %s, want failed", got)
	}
}

func TestG14NamesAreExact(t *testing.T) {
	r := Report{Outcomes: []Outcome{
		{Check: "pull", Required: true, Verdict: Failed}, {Check: "pull-sandbox", Required: true, Verdict: Passed},
	}}
	if r.Verdict() != Failed {
		t.Errorf("got %s, want failed", r.Verdict())
	}
	if o, ok := r.Outcome("pull"); !ok || o.Verdict != Failed {
		t.Errorf("pull: got %+v", o)
	}
	if _, ok := r.Outcome("pull-"); ok {
		t.Error("a prefix found an outcome")
	}
}

func TestG03SecondHangWhereTheParentPasses(t *testing.T) {
	once := Outcome{Verdict: Unknown, Timeouts: 1}
	twice := Outcome{Verdict: Unknown, Timeouts: 2}
	tests := []struct {
		o      Outcome
		parent Verdict
		want   Verdict
	}{
		{once, Passed, Unknown},
		{twice, Passed, Failed},
		{twice, Unknown, Unknown},
		{twice, Failed, Unknown},
		{Outcome{Verdict: Passed, Timeouts: 2, Passes: 1}, Passed, Passed},
	}
	for _, tt := range tests {
		if got := tt.o.Hung(tt.parent); got != tt.want {
			t.Errorf("%d time-outs, parent %s: got %s, want %s", tt.o.Timeouts, tt.parent, got, tt.want)
		}
	}
}
