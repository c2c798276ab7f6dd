package queues

import (
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"
	"greenward/queue/lane"
	"greenward/queue/plan"
)

//go:embed arrivals.txt
var arrivals string

// TraceSetting is a queue under the arrivals of a real run of many agents.
type TraceSetting struct {
	Policy    string        // tolerant, gated or adaptive
	Budget    float64       // error budget of a lane
	Check     time.Duration // how long the checks take
	Slots     int           // tests at once before landing
	Every     time.Duration // pause between two cycles of green
	Repair    time.Duration // from the end of the search for a culprit to its repair on main
	Lanes     int           // where changes come from, evenly
	Calm      float64       // how often a change of a lane is bad
	WildFrom  float64       // the same of the one lane that gets worse, at the beginning
	WildTo    float64       // and at the end
	Flake     float64       // how often a check fails on a good tree
	Seed      uint64
	MostHours float64 // simulate no more than so much of the trace; 0: all of it
}

// TraceResult is what became of the changes.
type TraceResult struct {
	Policy       string         `json:"policy"`
	Arrived      int            `json:"arrived"`
	Landed       int            `json:"landed"`      // by the end of the trace
	LandedBad    int            `json:"landed_bad"`  // of these, those that broke main
	Ejected      int            `json:"ejected"`     // for a failed check
	Waiting      int            `json:"waiting"`     // at the end of the trace
	Runs         int            `json:"runs"`        // builds before landing
	Cycles       int            `json:"cycles"`      // of green
	RedMinutes   float64        `json:"red_minutes"` // with a break on main that nothing has repaired
	Hours        float64        `json:"hours"`
	MeanWait     float64        `json:"mean_wait_minutes"`
	Percentile95 float64        `json:"p95_wait_minutes"`
	CalmWait     float64        `json:"calm_wait_minutes"` // mean, of the lanes that stay calm
	Tested       map[string]int `json:"tested"`            // landings and ejections that were tested, by lane
	Switches     []Switch       `json:"switches"`
	Samples      []TraceSample  `json:"samples"`
}

// Switch is a lane that was gated or opened.
type Switch struct {
	Hour   float64 `json:"hour"`
	Lane   string  `json:"lane"`
	State  string  `json:"state"`
	Detail string  `json:"detail"`
}

// TraceSample is how things stood at an hour.
type TraceSample struct {
	Hour    float64 `json:"hour"`
	Landed  int     `json:"landed"`
	Red     float64 `json:"red_minutes"`
	Waiting int     `json:"waiting"`
}

// Trace runs a policy over the arrivals. The queue's own core decides, as it does
// for the lander, and its book of lanes; git, the checks and green are simulated.
func Trace(s TraceSetting) (TraceResult, error) {
	w, err := newTrace(s)
	if err != nil {
		return TraceResult{}, err
	}
	for !w.over() {
		if err := w.minute(); err != nil {
			return TraceResult{}, err
		}
	}
	return w.result(), nil
}

// times are the arrivals, in minutes from the first.
func times(most float64) ([]float64, error) {
	at := []float64{0}
	for line := range strings.Lines(arrivals) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for word := range strings.FieldsSeq(line) {
			n, err := strconv.Atoi(word)
			if err != nil {
				return nil, fmt.Errorf("read the arrivals: %w", err)
			}
			next := at[len(at)-1] + float64(n)/60
			if most > 0 && next > 60*most {
				return at, nil
			}
			at = append(at, next)
		}
	}
	return at, nil
}

// simChange is one change of the trace.
type simChange struct {
	entry   string
	lane    string
	at      float64
	bad     bool
	decided float64
	tested  bool
	state   string
}

// simCommit is a commit of main as the simulation knows it.
type simCommit struct {
	entry  string
	broken int // breaks on it that nothing has repaired
	place  int
}

// trace is the simulated world.
type trace struct {
	TraceSetting
	rng     *rand.Rand
	at      []float64
	next    int // arrival
	now     float64
	state   queue.State
	book    lane.Book
	gated   map[string]bool
	changes map[string]*simChange
	waiting []string
	main    git.Hash
	commits map[git.Hash]simCommit
	line    []git.Hash // of main
	made    int
	round   *queue.Built
	ends    float64 // of the round
	good    git.Hash
	breaks  []string           // on main and not repaired
	repairs map[string]float64 // when a named culprit is repaired
	cycle   *simCycle
	idle    float64 // when the next cycle begins
	dirty   bool
	out     TraceResult
}

type simCycle struct {
	snapshot git.Hash
	ends     float64
}

func newTrace(s TraceSetting) (*trace, error) {
	at, err := times(s.MostHours)
	w := &trace{
		TraceSetting: s, rng: rand.New(rand.NewPCG(s.Seed, 7)), at: at, gated: map[string]bool{}, changes: map[string]*simChange{}, main: "m0",
		commits: map[git.Hash]simCommit{"m0": {}}, line: []git.Hash{"m0"}, repairs: map[string]float64{}, good: "m0",
	}
	w.out = TraceResult{Policy: s.Policy, Tested: map[string]int{}, Switches: []Switch{}}
	return w, err
}

func (w *trace) over() bool { return w.next == len(w.at) && w.now > w.at[len(w.at)-1] }

// minute goes on by one minute.
func (w *trace) minute() error {
	for w.next < len(w.at) && w.at[w.next] <= w.now {
		w.arrive()
	}
	w.green()
	for culprit, at := range w.repairs {
		if at <= w.now {
			w.repair(culprit)
		}
	}
	if w.round != nil && w.ends <= w.now {
		w.dirty = true
	}
	for tries := 0; w.dirty; tries++ {
		if tries > 500 {
			return fmt.Errorf("trace: no rest at minute %.0f", w.now)
		}
		w.dirty = false
		w.pass()
	}
	if len(w.breaks) > 0 {
		w.out.RedMinutes++
	}
	if math.Mod(w.now, 60) == 0 {
		w.out.Samples = append(w.out.Samples, TraceSample{Hour: w.now / 60, Landed: w.out.Landed, Red: w.out.RedMinutes, Waiting: len(w.waiting)})
	}
	w.now++
	return nil
}

// arrive takes in the next change. The first lane is the one that gets worse.
func (w *trace) arrive() {
	i := w.rng.IntN(w.Lanes)
	bad := w.Calm
	if i == 0 {
		bad = w.WildFrom + (w.WildTo-w.WildFrom)*w.at[w.next]/w.at[len(w.at)-1]
	}
	c := &simChange{entry: fmt.Sprintf("c%05d@1", w.next), lane: fmt.Sprint("agent/", string(rune('a'+i))), at: w.at[w.next], bad: w.rng.Float64() < bad}
	w.changes[c.entry] = c
	w.waiting = append(w.waiting, c.entry)
	w.next++
	w.dirty = true
	w.out.Arrived++
}

// green judges main's tip from time to time. A cycle on a red snapshot takes as
// much again for each halving of what is new on it, and names every culprit in it.
func (w *trace) green() {
	if w.cycle == nil {
		if w.now < w.idle || w.good == w.main {
			return
		}
		took := w.Check
		if tip := w.commits[w.main]; tip.broken > 0 {
			took += time.Duration(math.Ceil(math.Log2(float64(tip.place-w.commits[w.good].place+1)))) * w.Check
		}
		w.cycle = &simCycle{snapshot: w.main, ends: w.now + took.Minutes()}
		return
	}
	if w.now < w.cycle.ends {
		return
	}
	tip := w.commits[w.cycle.snapshot]
	c := lane.Cycle{Through: tip.entry, Clean: tip.broken == 0}
	if c.Clean {
		w.good = w.cycle.snapshot
	}
	for _, entry := range w.breaks {
		if _, named := w.repairs[entry]; !named && w.placeOf(entry) <= tip.place {
			c.Culprits = append(c.Culprits, lane.Culprit{Entry: entry, Evidence: entry})
			w.repairs[entry] = w.now + w.Repair.Minutes()
		}
	}
	if c.Clean || len(c.Culprits) > 0 {
		w.book.Cycle(c)
	}
	w.out.Cycles++
	w.cycle, w.idle, w.dirty = nil, w.now+w.Every.Minutes(), true
}

func (w *trace) placeOf(entry string) int {
	for i, h := range slices.Backward(w.line) {
		if w.commits[h].entry == entry {
			return i
		}
	}
	return len(w.line)
}

// repair lands the repair of a culprit.
func (w *trace) repair(culprit string) {
	delete(w.repairs, culprit)
	for i, entry := range w.breaks {
		if entry == culprit {
			w.breaks = append(w.breaks[:i:i], w.breaks[i+1:]...)
			break
		}
	}
	w.book.Landed(lane.Landing{Entry: "repair " + culprit, Repair: true})
	tip := w.commits[w.main]
	w.grow(simCommit{entry: tip.entry, broken: tip.broken - 1})
	w.dirty = true
}

func (w *trace) grow(c simCommit) {
	w.made++
	w.main = git.Hash(fmt.Sprint("m", w.made))
	c.place = len(w.line)
	w.commits[w.main] = c
	w.line = append(w.line, w.main)
}

// pass is what the lander does in one: it reads, asks the core and does what that says.
func (w *trace) pass() {
	read := queue.Read{Main: w.main, Strict: w.Policy != "adaptive", Slots: w.Slots, Good: w.good, Red: w.Policy == "adaptive" && w.book.Outstanding() > 0}
	if w.Policy == "adaptive" {
		w.switches(&read)
	}
	if w.round != nil && w.ends <= w.now {
		read.Built, w.round = w.round, nil
	}
	for _, entry := range w.waiting {
		c := w.changes[entry]
		one := queue.Waiting{Entry: entry, Name: entry, Head: git.Hash(entry), Lane: c.lane, Bad: w.book.Rate(c.lane)}
		if w.Policy == "gated" || w.gated[c.lane] {
			one.Gate = queue.Gate{Class: "full", Lane: c.lane}
		}
		read.Waiting = append(read.Waiting, one)
	}
	now := time.Unix(0, 0).Add(time.Duration(w.now * float64(time.Minute)))
	events := []queue.Event{read}
	for len(events) > 0 {
		var effects []queue.Effect
		w.state, effects = w.state.Step(events[0], now)
		events = events[1:]
		for _, e := range effects {
			if answer := w.do(e); answer != nil {
				events = append(events, answer)
			}
		}
	}
}

// switches does what the lander does with the book of lanes.
func (w *trace) switches(read *queue.Read) {
	for _, name := range w.book.Lanes() {
		st := w.book.Standing(name)
		if now := st.Gated(w.gated[name], w.Budget); now != w.gated[name] {
			w.gated[name] = now
			state := journal.Open
			if now {
				state = journal.Gated
			}
			w.out.Switches = append(w.out.Switches, Switch{Hour: w.now / 60, Lane: name, State: state, Detail: st.Why(w.Budget)})
		}
	}
	if pace := w.book.Pace(); pace < lane.PaceMost {
		read.Slow, read.Room = true, pace-w.book.Unjudged()
	}
}

func (w *trace) do(e queue.Effect) queue.Event {
	switch e := e.(type) {
	case queue.Merge:
		w.made++
		return queue.Merged{Entry: e.Waiting.Entry, Tip: git.Hash(fmt.Sprint("x", w.made))}
	case queue.Record:
		w.record(e)
		return queue.Recorded{}
	case queue.Build:
		w.build(e)
	case queue.Reread:
		w.dirty = true
	}
	return nil
}

// record lands and ejects.
func (w *trace) record(e queue.Record) {
	for _, d := range e.Decisions {
		c := w.changes[d.Entry]
		c.decided, c.state, c.tested = w.now, d.State, d.Gated != ""
		if c.tested {
			w.out.Tested[c.lane]++
		}
		for i, entry := range w.waiting {
			if entry == d.Entry {
				w.waiting = append(w.waiting[:i:i], w.waiting[i+1:]...)
				break
			}
		}
		if d.State == journal.Ejected {
			w.out.Ejected++
			w.book.Failed(lane.Failure{Entry: d.Entry, Lanes: []string{c.lane}, For: c.lane})
			continue
		}
		w.out.Landed++
		w.book.Landed(lane.Landing{Entry: d.Entry, Lanes: []string{c.lane}, Tested: c.tested, For: c.lane})
		tip := w.commits[w.main]
		tip.entry = d.Entry
		if c.bad {
			w.out.LandedBad++
			w.breaks = append(w.breaks, d.Entry)
			tip.broken++
		}
		w.grow(tip)
		w.commits[*d.Landed] = w.commits[w.main]
		w.line[len(w.line)-1], w.main = *d.Landed, *d.Landed
	}
}

// build runs a round: its verdicts are known when the checks have had their time.
func (w *trace) build(e queue.Build) {
	out := &queue.Built{Class: e.Class}
	for _, t := range e.Tests {
		w.out.Runs++
		r := queue.BuiltTest{Result: plan.Result{Test: t, Verdict: plan.Passed}, Flake: w.Flake}
		fails := w.commits[git.Hash(t.Base)].broken > 0 || w.rng.Float64() < w.Flake
		for _, entry := range t.Set {
			w.made++
			r.Merged = append(r.Merged, queue.Merged{Entry: entry, Tip: git.Hash(fmt.Sprint("t", w.made))})
			fails = fails || w.changes[entry].bad
		}
		if fails {
			r.Verdict = plan.Failed
		}
		out.Results = append(out.Results, r)
	}
	w.round, w.ends = out, w.now+w.Check.Minutes()
}
