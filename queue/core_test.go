package queue

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
	"greenward/internal/verify"
	"greenward/queue/plan"
)

// TestStepStories walks the core through files of events. A line that begins
// with < is an event; the lines below it, with >, are the state and the effects
// that came of it. -update writes what is.
func TestStepStories(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/step/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := walk(t, string(data))
			if flag.Lookup("update").Value.String() == "true" {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(data), got); diff != "" {
				t.Errorf("story (-want +got):\n%s", diff)
			}
		})
	}
}

// walk steps through the events of a story and writes what came of each.
func walk(t *testing.T, story string) string {
	t.Helper()
	var out strings.Builder
	var state State
	var last Build
	now := gittest.Start()
	for line := range strings.Lines(story) {
		switch {
		case strings.HasPrefix(line, ">"):
		case strings.HasPrefix(line, "< "):
			out.WriteString(line)
			words := strings.Fields(line)[1:]
			if words[0] == "later" {
				now = now.Add(time.Minute)
				continue
			}
			var effects []Effect
			state, effects = state.Step(parseEvent(t, words, last), now)
			fmt.Fprintf(&out, "> tip=%s waiting=%d planned=%d deferred=%d\n", string(state.tip), len(state.waiting), len(state.plan), len(state.deferred))
			for _, e := range effects {
				fmt.Fprintf(&out, "> %s\n", describe(e))
				if b, ok := e.(Build); ok {
					last = b
				}
			}
		default:
			out.WriteString(line)
		}
	}
	return out.String()
}

// parseEvent reads an event: a verb, words, and key=value pairs.
func parseEvent(t *testing.T, words []string, last Build) Event {
	t.Helper()
	value := map[string]string{}
	var plain []string
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok {
			value[k] = v
		} else {
			plain = append(plain, w)
		}
	}
	switch words[0] {
	case "read":
		e := Read{Main: git.Hash(value["main"]), Closed: value["closed"] != "", Strict: value["moves"] == "", Slots: 1, Good: git.Hash(value["good"])}
		if of := value["built"]; of != "" { // a verdict for each test of the newest build
			e.Built = answer(last, strings.Split(of, ","))
		}
		for _, p := range plain {
			name, mark, _ := strings.Cut(p, "!")
			w := Waiting{Entry: name + "@1", Name: name, Head: git.Hash("head-" + name), Bad: 0.05}
			if value["judged"] != "" || mark == "gated" {
				w.Gate = Gate{Class: classFull, Lane: "l"}
			}
			w.Landed = mark == "landed"
			if mark == "failed" {
				w.Failed = &journal.Decision{Entry: name + "@0", Evidence: []string{"run"}}
			}
			e.Waiting = append(e.Waiting, w)
		}
		return e
	case "merged":
		m := Merged{Entry: plain[0] + "@1", Tip: git.Hash(value["tip"]), Task: value["task"], Note: value["note"]}
		if below := value["below"]; below != "" {
			m.Below = []string{below + "@1"}
		}
		return m
	case "found":
		return Found{Entry: plain[0] + "@1", Reason: value["reason"], With: value["with"], Task: value["task"]}
	case "idle":
		return Idle{Class: classFull}
	case "stumbled":
		return Stumbled{Entry: plain[0] + "@1"}
	case "recorded":
		return Recorded{}
	case "raced":
		return Raced{}
	}
	t.Fatalf("unknown event %v", words)
	return nil
}

// answer is the round that a build asked for, with these verdicts. The commit of a
// set is named by its base and its names.
func answer(b Build, verdicts []string) *Built {
	out := &Built{Class: b.Class}
	for i, test := range b.Tests {
		r := BuiltTest{Result: plan.Result{Test: test, Verdict: map[string]plan.Verdict{"passed": plan.Passed, "failed": plan.Failed}[verdicts[i]]}}
		r.Detail, r.Evidence = "check test "+verdicts[i], []string{"run"}
		var tip strings.Builder
		tip.WriteString(test.Base)
		for _, entry := range test.Set {
			tip.WriteString("+" + strings.TrimSuffix(entry, "@1"))
			r.Merged = append(r.Merged, Merged{Entry: entry, Tip: git.Hash(tip.String())})
		}
		out.Results = append(out.Results, r)
	}
	return out
}

func describe(e Effect) string {
	switch e := e.(type) {
	case Merge:
		return fmt.Sprintf("merge %s onto %s", e.Waiting.Entry, string(e.Tip))
	case Build:
		var text strings.Builder
		text.WriteString("build")
		for _, test := range e.Tests {
			fmt.Fprintf(&text, " %s:%s on %s", test.Why, strings.Join(test.Set, ","), test.Base)
		}
		return text.String()
	case Record:
		var text strings.Builder
		fmt.Fprintf(&text, "record %s..%s", string(e.From), string(e.To))
		for _, d := range e.Decisions {
			fmt.Fprintf(&text, "\n>   %s %s", d.Entry, d.State)
			if d.Reason != nil {
				text.WriteString(" " + *d.Reason)
			}
			if d.With != nil {
				text.WriteString(" with " + *d.With)
			}
		}
		return text.String()
	case Clean:
		return "clean " + e.Waiting.Entry
	case Reread:
		return "reread"
	case WakeAt:
		return "wake at " + e.Time.Format(time.TimeOnly)
	}
	return "?"
}

// fate is how a modelled entry behaves when it is merged or judged.
type fate struct {
	name    string
	finding string // reason of a finding at every merge
	verdict verify.Verdict
	landed  bool // in the log already
	failed  bool
}

// TestCoreKeepsItsInvariants runs the core against a naive model of git with
// random entries, verdicts and lost races, and holds after every record:
// everything is decided once, in order; main moves from what was read; nothing
// lands without the verdict that was asked for; a pass ends.
func TestCoreKeepsItsInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		verdicts := []verify.Verdict{verify.Passed, verify.Failed, verify.Broken, verify.Unknown}
		var fates []fate
		for i := range rapid.IntRange(0, 130).Draw(rt, "entries") {
			fates = append(fates, fate{
				name:    fmt.Sprintf("e%03d", i),
				finding: rapid.SampledFrom([]string{"", "", "", "conflict", "empty"}).Draw(rt, "finding"),
				verdict: rapid.SampledFrom(verdicts).Draw(rt, "verdict"),
				landed:  rapid.IntRange(0, 9).Draw(rt, "landed") == 0,
				failed:  rapid.IntRange(0, 9).Draw(rt, "failed") == 0,
			})
		}
		m := model{rt: rt, fates: fates, judged: rapid.Bool().Draw(rt, "judged"), main: "m0", slots: rapid.SampledFrom([]int{1, 2, 8}).Draw(rt, "slots")}
		m.closed = rapid.IntRange(0, 9).Draw(rt, "closed") == 0
		m.run()
	})
}

// model is git and the judge as the core sees them.
type model struct {
	rt             *rapid.T
	fates          []fate
	judged, closed bool
	slots          int
	main           git.Hash
	commits        int
	decided        []journal.Decision
	passed         map[git.Hash]bool
	round          *Build
	steps          int
}

func (m *model) run() {
	var state State
	now := gittest.Start()
	m.passed = map[git.Hash]bool{}
	for again := true; again || m.round != nil; {
		again = false
		events := []Event{m.read()}
		for len(events) > 0 {
			if m.steps++; m.steps > 20_000 {
				m.rt.Fatal("no end")
			}
			var effects []Effect
			state, effects = state.Step(events[0], now)
			events = events[1:]
			answers := 0
			for _, e := range effects {
				answer := m.do(e, &again)
				if answer != nil {
					answers++
					events = append(events, answer)
				}
			}
			if answers > 1 {
				m.rt.Fatal("two things at once")
			}
		}
	}
	m.check()
}

func (m *model) read() Read {
	e := Read{Main: m.main, Closed: m.closed, Strict: true, Slots: m.slots}
	if m.round != nil {
		e.Built, m.round = m.answer(*m.round), nil
	}
	for _, f := range m.fates {
		if m.find(f.name) != nil {
			continue
		}
		w := Waiting{Entry: f.name, Name: f.name, Head: git.Hash(f.name), Landed: f.landed, Bad: 0.2}
		if m.judged {
			w.Gate = Gate{Class: classFull}
		}
		if f.failed {
			w.Failed = &journal.Decision{Entry: "before"}
		}
		e.Waiting = append(e.Waiting, w)
	}
	return e
}

func (m *model) find(name string) *journal.Decision {
	i := slices.IndexFunc(m.decided, func(d journal.Decision) bool { return d.Entry == name })
	if i < 0 {
		return nil
	}
	return &m.decided[i]
}

func (m *model) fate(entry string) fate {
	return m.fates[slices.IndexFunc(m.fates, func(f fate) bool { return f.name == entry })]
}

func (m *model) do(e Effect, again *bool) Event {
	switch e := e.(type) {
	case Merge:
		f := m.fate(e.Waiting.Entry)
		if f.landed || m.closed {
			m.rt.Fatalf("%s is merged", f.name)
		}
		if f.finding != "" {
			return Found{Entry: f.name, Reason: f.finding}
		}
		m.commits++
		return Merged{Entry: f.name, Tip: git.Hash(fmt.Sprintf("%s>%d", e.Tip, m.commits))}
	case Build:
		m.round = &e
	case Record:
		return m.record(e)
	case Reread:
		*again = true
	}
	return nil
}

// answer builds and judges a round. A set with an entry that is broken or unknown
// has an open end, unless another one fails.
func (m *model) answer(b Build) *Built {
	out := &Built{Class: b.Class}
	for _, test := range b.Tests {
		r := BuiltTest{Result: plan.Result{Test: test, Verdict: plan.Passed}}
		tip := git.Hash(test.Base)
		for _, entry := range test.Set {
			m.commits++
			tip = git.Hash(fmt.Sprintf("%s>%d", tip, m.commits))
			r.Merged = append(r.Merged, Merged{Entry: entry, Tip: tip})
			switch m.fate(entry).verdict {
			case verify.Failed:
				r.Verdict = plan.Failed
			case verify.Broken, verify.Unknown:
				r.Verdict = min(r.Verdict, plan.Passed)
				if r.Verdict == plan.Passed {
					r.Verdict = plan.Open
				}
			case verify.Passed:
			}
		}
		if m.passed[tip] = r.Verdict == plan.Passed; m.passed[tip] {
			for _, one := range r.Merged {
				m.passed[one.Tip] = true // as part of a set that passed as a whole
			}
		}
		out.Results = append(out.Results, r)
	}
	return out
}

func (m *model) record(e Record) Event {
	if rapid.IntRange(0, 4).Draw(m.rt, "race") == 0 {
		m.commits++
		m.main = git.Hash(fmt.Sprintf("direct%d", m.commits)) // somebody pushed
	}
	if e.From != m.main {
		return Raced{}
	}
	if len(e.Decisions) == 0 || len(e.Decisions) > MaxBatch {
		m.rt.Fatalf("%d decisions in one record", len(e.Decisions))
	}
	tip := e.From
	for _, d := range e.Decisions {
		if m.find(d.Entry) != nil {
			m.rt.Fatalf("%s is decided twice", d.Entry)
		}
		if *d.Onto != tip {
			m.rt.Fatalf("%s was made on %s, not on %s", d.Entry, *d.Onto, tip)
		}
		if d.State == journal.Landed {
			if tip = *d.Landed; m.judged && !m.passed[tip] {
				m.rt.Fatalf("%s lands without its verdict", d.Entry)
			}
		}
	}
	if tip != e.To {
		m.rt.Fatalf("main would move to %s, not to %s", e.To, tip)
	}
	m.main = tip
	m.decided = append(m.decided, e.Decisions...)
	return Recorded{}
}

// check holds that every entry ended where its fate leads, in order.
func (m *model) check() {
	var order []string
	for _, f := range m.fates {
		want := "landed"
		switch {
		case f.landed || m.closed:
			want = ""
		case f.failed:
			want = "unchanged"
		case f.finding != "":
			want = f.finding
		case m.judged && f.verdict == verify.Failed:
			want = "checks"
		case m.judged && f.verdict != verify.Passed:
			want = ""
		}
		got := ""
		if d := m.find(f.name); d != nil {
			got = d.State
			if d.Reason != nil {
				got = *d.Reason
			}
			order = append(order, d.Entry)
		}
		if got != want {
			m.rt.Fatalf("%+v ended as %q, want %q", f, got, want)
		}
	}
	var logged []string
	for _, d := range m.decided {
		logged = append(logged, d.Entry)
	}
	if m.judged { // in the order in which they are proven
		slices.Sort(logged)
	}
	if diff := cmp.Diff(order, logged); diff != "" {
		m.rt.Fatalf("order (-want +got):\n%s", diff)
	}
}

// TestMain lowers the number of random queues of a plain run; -rapid.checks
// overrides it.
func TestMain(m *testing.M) {
	flag.Bool("update", false, "write what is into the golden files")
	if err := flag.Set("rapid.checks", "60"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
