package green

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"greenward/internal/git"
	"greenward/internal/verify"
)

// model is a world for the core without git: commits are places in a line, and a
// check fails where a culprit of it is in the tree.
type model struct {
	n        int            // commits after the good end
	breaks   map[int]string // place → check
	mended   map[int]int    // culprit → the place of main that undoes it
	stuck    map[int]bool   // culprits whose revert conflicts
	standing map[int]bool   // of these, those that can go together with the next commit, or in part
	mendable bool           // the agent's patch makes everything pass
	down     bool           // everything fails now
	flaky    int            // runs that fail by accident, of the whole cycle
	checks   []string
	known    map[string]Seen
	trace    []string
	runs     int
}

func hash(at int) git.Hash { return git.Hash(fmt.Sprintf("%040x", at+1)) }

func (m *model) frozen(repair ...string) Frozen {
	f := Frozen{Snapshot: hash(m.n), Rests: true, Repair: repair, Fixer: true}
	for at := range m.n + 1 {
		f.Line = append(f.Line, hash(at))
	}
	return f
}

// effects that a culprit has in a candidate's tree.
func (m *model) present(c Candidate, culprit int) bool {
	if culprit > c.At {
		return false
	}
	if undone, ok := m.mended[culprit]; ok && undone <= c.At {
		return false
	}
	return !slices.ContainsFunc(c.Applied(), func(f Fix) bool { return f.Kind == RepairRevert && f.Commit == hash(culprit) })
}

// fails is the truth of one check on a candidate.
func (m *model) fails(c Candidate, check string) bool {
	if m.mendable && slices.ContainsFunc(c.Applied(), func(f Fix) bool { return f.Kind == RepairAgent }) {
		return false
	}
	for culprit, k := range m.breaks {
		if k == check && m.present(c, culprit) {
			return true
		}
	}
	return false
}

func (m *model) answer(e Effect) Event {
	switch e := e.(type) {
	case Judge:
		return m.judge(e)
	case Probe:
		return m.probe(e)
	case Construct:
		return Constructed{}
	case Explain:
		return Explained{Drop: e.At}
	case Mend:
		return Mended{Fix: Fix{Kind: RepairAgent, Commit: hash(1000), From: m.n, Culprits: e.Culprits}}
	case Accept:
		return Accepted{Ran: 1}
	case Recall:
		return m.recall()
	case Vet:
		return Vetted{}
	case Widen:
		at := e.Fix.From
		out := Widened{Fix: e.Fix.Commit}
		if m.standing[at] {
			with, part := e.Fix, e.Fix
			with.With, part.InPart = []git.Hash{hash(at + 1)}, true
			out.Fixes = []Fix{with, part}
		}
		return out
	case Promote, Hold, Wait, Rest:
	}
	return nil
}

func (m *model) probe(p Probe) Event {
	var out Probed
	for _, spot := range p.Spots {
		var a Answer
		for n := range spot.Times {
			judged, ok := m.judge(Judge{Cand: spot.Cand, Checks: []string{p.Check}, Again: spot.Known || n > 0}).(Judged)
			if !ok {
				a.Unbuilt = true
				break
			}
			a.Seen = judged.Seen[0]
			a.Ran += judged.Ran
			if a.Seen.Fresh == verify.Passed {
				a.Passes++
			}
			if judged.Ran == 0 {
				break
			}
		}
		out.Answers = append(out.Answers, a)
	}
	return out
}

func (m *model) judge(j Judge) Event {
	var out Judged
	for _, f := range j.Cand.Applied() {
		at := slices.IndexFunc(m.frozen().Line, func(h git.Hash) bool { return h == f.Commit })
		if f.Kind != RepairRevert {
			continue
		}
		if m.stuck[at] && j.Cand.At > at && len(f.With) == 0 && !f.InPart {
			return Unbuilt{Fix: f.Commit, Why: "a conflict"}
		}
		if undone, ok := m.mended[at]; ok && undone <= j.Cand.At {
			out.Idle = append(out.Idle, f.Commit)
		}
	}
	checks := j.Checks
	if checks == nil {
		checks = m.checks
	}
	out.Expected = checks
	for _, k := range checks {
		key := m.tree(j.Cand) + k
		o, ok := m.known[key]
		if o.ID = k; !ok || j.Again {
			m.runs++
			out.Ran++
			o.Runs++
			bad := m.down || m.fails(j.Cand, k)
			if !bad && m.flaky > 0 {
				m.flaky--
				bad = true
			}
			if o.Fresh = verify.Passed; bad {
				o.Fresh = verify.Failed
				o.Fails++
			} else {
				o.Passes++
			}
			if o.Verdict = verify.Failed; o.Passes > o.Fails {
				o.Verdict = verify.Passed
			}
		} else {
			o.Fresh = ""
		}
		m.known[key] = o
		out.Seen = append(out.Seen, o)
	}
	return out
}

// tree names the content of a candidate: evidence is kept by it.
func (m *model) tree(c Candidate) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d", c.At)
	for culprit := range m.n + 1 {
		if _, ok := m.breaks[culprit]; ok && culprit <= c.At && !m.present(c, culprit) {
			fmt.Fprintf(&b, "-%d", culprit)
		}
	}
	for _, f := range c.Applied() {
		if f.Kind == RepairAgent {
			b.WriteString("+agent")
		}
	}
	return b.String() + "/"
}

// recall is the newest place that is known to pass everything.
func (m *model) recall() Event {
	for at := m.n - 1; at > 0; at-- {
		var seen []Seen
		for _, k := range m.checks {
			if o, ok := m.known[m.tree(Candidate{At: at})+k]; ok && o.Verdict == verify.Passed {
				seen = append(seen, o)
			}
		}
		if len(seen) == len(m.checks) {
			return Recalled{At: at, Seen: seen}
		}
	}
	return Recalled{}
}

// run drives the core to its end.
func (m *model) run(in Frozen) (State, Effect, error) {
	if m.known == nil {
		m.known = map[string]Seen{}
	}
	var s State
	var event Event = Opened{in}
	for range maxSteps {
		var effects []Effect
		s, effects = s.Step(event, time.Time{})
		if len(effects) != 1 {
			return s, nil, fmt.Errorf("%d effects", len(effects))
		}
		m.trace = append(m.trace, describeEffect(s, effects[0]))
		if event = m.answer(effects[0]); event == nil {
			return s, effects[0], nil
		}
	}
	return s, nil, fmt.Errorf("no end:\n%s", strings.Join(m.trace, "\n"))
}

func describeEffect(s State, e Effect) string {
	place := func(c Candidate) string {
		var text strings.Builder
		text.WriteString("c" + strconv.Itoa(c.At))
		for _, f := range c.Applied() {
			at := slices.Index(s.In.Line, f.Commit)
			if f.Kind == RepairAgent {
				text.WriteString(" + patch")
				continue
			}
			text.WriteString(" - c" + strconv.Itoa(at))
			for _, h := range f.With {
				text.WriteString("&c" + strconv.Itoa(slices.Index(s.In.Line, h)))
			}
			if f.InPart {
				text.WriteString("~")
			}
		}
		return text.String()
	}
	switch e := e.(type) {
	case Judge:
		what := "all"
		if e.Checks != nil {
			what = strings.Join(e.Checks, " ")
		}
		if e.Again {
			what += " again"
		}
		return fmt.Sprintf("judge %s: %s", place(e.Cand), what)
	case Probe:
		var text strings.Builder
		text.WriteString("probe " + e.Check + ":")
		for _, spot := range e.Spots {
			text.WriteString(" " + place(spot.Cand))
			if spot.Times > 1 {
				fmt.Fprintf(&text, " × %d", spot.Times)
			}
		}
		return text.String()
	case Construct:
		return "construct for " + strings.Join(e.Checks, " ")
	case Explain:
		return fmt.Sprintf("explain c%d", e.At)
	case Recall:
		return "recall"
	case Vet:
		return fmt.Sprintf("vet %d", len(e.Commits))
	case Widen:
		return fmt.Sprintf("widen c%d", e.Fix.From)
	case Mend:
		return "mend " + place(e.Cand)
	case Accept:
		return "accept " + place(e.Cand)
	case Promote:
		return fmt.Sprintf("promote %s, repair %s, contained c%d", place(e.Cand), e.Repair, s.Contained(e.Cand))
	case Hold:
		return "hold " + e.Reason
	case Wait:
		return "wait " + e.Reason
	case Rest:
		return "rest"
	}
	return "?"
}

// TestCoreNamesTheTruth runs random worlds and holds what must hold in all of
// them: the core ends; it promotes only what truly passes; without accidents it
// names true culprits only, and contains no more than it says.
func TestCoreNamesTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			n: rapid.IntRange(1, 24).Draw(t, "n"), checks: []string{"build", "test", "vet"},
			breaks: map[int]string{}, mended: map[int]int{}, stuck: map[int]bool{}, standing: map[int]bool{},
			mendable: rapid.Bool().Draw(t, "mendable"),
		}
		for range rapid.IntRange(0, 4).Draw(t, "culprits") {
			at := rapid.IntRange(1, m.n).Draw(t, "at")
			m.breaks[at] = rapid.SampledFrom(m.checks).Draw(t, "check")
			if at < m.n && rapid.IntRange(0, 3).Draw(t, "undone") == 0 {
				m.mended[at] = rapid.IntRange(at+1, m.n).Draw(t, "by")
			}
			m.stuck[at] = rapid.IntRange(0, 3).Draw(t, "stuck") == 0
			m.standing[at] = at < m.n && rapid.Bool().Draw(t, "standing")
		}
		repair := rapid.Permutation([]string{RepairRevert, RepairAgent, RepairPrefix, RepairSubset}).Draw(t, "repair")
		s, end, err := m.run(m.frozen(repair[:rapid.IntRange(0, 4).Draw(t, "means")]...))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Culprits {
			if _, ok := m.breaks[c.At]; c.Kind == KindChange && !ok {
				t.Fatalf("c%d is blamed and innocent\n%s", c.At, strings.Join(m.trace, "\n"))
			}
		}
		switch e := end.(type) {
		case Promote:
			for _, k := range m.checks {
				if m.fails(e.Cand, k) {
					t.Fatalf("promoted what fails %s\n%s", k, strings.Join(m.trace, "\n"))
				}
			}
			if len(e.Checks) != len(m.checks) {
				t.Fatalf("promoted by %d checks of %d", len(e.Checks), len(m.checks))
			}
			for _, f := range s.Effective(e.Cand) {
				if f.Kind == RepairRevert && f.From <= s.Contained(e.Cand) {
					t.Fatalf("c%d is left out and called contained", f.From)
				}
			}
		case Hold:
			if e.Reason != ReasonRed {
				t.Fatalf("held for %s\n%s", e.Reason, strings.Join(m.trace, "\n"))
			}
			for _, f := range e.Offer.Fixes {
				if check, guilty := m.breaks[f.From]; !guilty || f.Check != check || m.fails(e.Offer, check) {
					t.Fatalf("main is asked to take c%d back for %s, which does not help it\n%s", f.From, f.Check, strings.Join(m.trace, "\n"))
				}
			}
		default:
			t.Fatalf("ended with %T", end)
		}
	})
}

// TestCoreSurvivesAccidents lets single runs fail by accident: nothing that
// fails is promoted, and the core ends.
func TestCoreSurvivesAccidents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{n: rapid.IntRange(1, 12).Draw(t, "n"), checks: []string{"test"}, breaks: map[int]string{}}
		if rapid.Bool().Draw(t, "broken") {
			m.breaks[rapid.IntRange(1, m.n).Draw(t, "at")] = "test"
		}
		m.flaky = rapid.IntRange(0, 3).Draw(t, "flaky")
		_, end, err := m.run(m.frozen(RepairRevert, RepairPrefix))
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := end.(Promote); ok && m.fails(p.Cand, "test") {
			t.Fatalf("promoted what fails\n%s", strings.Join(m.trace, "\n"))
		}
	})
}

// TestG22Core holds that a world that is down blames nobody, whatever is known.
func TestG22Core(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{n: rapid.IntRange(0, 24).Draw(t, "n"), checks: []string{"build", "test"}, known: map[string]Seen{}}
		for at := range rapid.IntRange(0, m.n).Draw(t, "known") {
			for _, k := range m.checks {
				m.known[m.tree(Candidate{At: at})+k] = Seen{ID: k, Verdict: verify.Passed, Passes: 1, Runs: 1}
			}
		}
		m.down = true
		s, end, err := m.run(m.frozen(RepairRevert, RepairAgent, RepairPrefix))
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := end.(Promote); ok && p.Early {
			return // what was known to pass before may be promoted whatever the hour
		}
		if h, ok := end.(Hold); !ok || h.Reason != ReasonEnvironment {
			t.Fatalf("ended with %+v\n%s", end, strings.Join(m.trace, "\n"))
		}
		for _, c := range s.Culprits {
			if c.Kind == KindChange {
				t.Fatalf("c%d is blamed\n%s", c.At, strings.Join(m.trace, "\n"))
			}
		}
	})
}

// TestCoreTraces compares the effects of told stories with testdata; `go test
// ./green -run Core -args update` accepts them.
func TestCoreTraces(t *testing.T) {
	all := []string{RepairRevert, RepairSubset, RepairAgent, RepairPrefix}
	stories := map[string]struct {
		model model
		edit  func(*Frozen)
	}{
		"passes":      {model: model{n: 3}},
		"one_culprit": {model: model{n: 9, breaks: map[int]string{4: "test"}}},
		"two_checks":  {model: model{n: 9, breaks: map[int]string{3: "build", 7: "test"}}},
		"one_behind":  {model: model{n: 9, breaks: map[int]string{2: "test", 6: "test"}}},
		"conflict":    {model: model{n: 5, breaks: map[int]string{2: "test"}, stuck: map[int]bool{2: true}, mendable: true}},
		"stands_on":   {model: model{n: 5, breaks: map[int]string{2: "test"}, stuck: map[int]bool{2: true}, standing: map[int]bool{2: true}}},
		"frontier": {model: model{n: 5, breaks: map[int]string{4: "test"}, known: map[string]Seen{
			"3/build": {ID: "build", Verdict: verify.Passed, Passes: 1, Runs: 1}, "3/test": {ID: "test", Verdict: verify.Passed, Passes: 1, Runs: 1},
		}}},
		"only_a_prefix": {model: model{n: 5, breaks: map[int]string{3: "test"}, stuck: map[int]bool{3: true}}},
		"undone":        {model: model{n: 7, breaks: map[int]string{2: "test", 6: "test"}, mended: map[int]int{2: 4}}},
		"down":          {model: model{n: 4, down: true}},
		"flake":         {model: model{n: 4, flaky: 1}},
		"no_green":      {model: model{n: 9, breaks: map[int]string{6: "test"}}, edit: func(f *Frozen) { f.Rests, f.Line[0] = false, "" }},
		"carried": {model: model{n: 4, breaks: map[int]string{1: "test"}}, edit: func(f *Frozen) {
			f.Carry = []Fix{{Kind: RepairRevert, Commit: hash(1), From: 1, Culprits: []git.Hash{hash(1)}, Check: "test"}}
		}},
		"held":     {model: model{n: 1}, edit: func(f *Frozen) { f.Held = "release week" }},
		"same":     {model: model{n: 1}, edit: func(f *Frozen) { f.Same = true }},
		"weakened": {model: model{n: 1}, edit: func(f *Frozen) { f.Weakened = []string{"test"} }},
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			m := story.model
			m.checks = []string{"build", "test"}
			in := m.frozen(all...)
			if story.edit != nil {
				story.edit(&in)
			}
			s, _, err := m.run(in)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range s.Culprits {
				m.trace = append(m.trace, fmt.Sprintf("culprit c%d of %s: %s, %.4f", slices.Index(in.Line, c.Commit), c.Check, c.Kind, c.Confidence))
			}
			for _, a := range s.Alerts {
				m.trace = append(m.trace, "alert "+a)
			}
			golden(t, name, strings.Join(m.trace, "\n")+"\n")
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".trace")
	if update() {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// update reports whether the word update was given after -args.
func update() bool { return slices.Contains(flag.Args(), "update") }

func FuzzParseChecked(f *testing.F) {
	f.Add("test passed runs=1")
	f.Add("CI / e2e failed runs=12")
	f.Fuzz(func(t *testing.T, value string) {
		c, err := parseChecked(value)
		if err != nil {
			return
		}
		text := fmt.Sprintf("%s %s runs=%d", c.Name, c.Verdict, c.Runs)
		if again, err := parseChecked(text); err != nil || again != c {
			t.Errorf("%q reads as %+v and back as %+v, %v", value, c, again, err)
		}
	})
}
