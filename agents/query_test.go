package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"greenward/agents/model"
)

// A query finds exactly the events from its moment on, as reading all of them
// would, whatever their lengths, with torn lines among them.
func TestQueryIsTheNaiveOne(t *testing.T) {
	state := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		agent := fmt.Sprintf("w%d", n)
		now := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
		tr, err := OpenTranscript(TranscriptInput{State: state, Run: "run", Agent: agent, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		path := TranscriptPath(state, "run", agent)
		var all []Event
		for i := range rapid.IntRange(0, 30).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(-2, 3).Draw(t, "step")) * time.Second)
			e := Event{Kind: EventNote, Text: strings.Repeat("x", rapid.SampledFrom([]int{0, 10, 5000, 70_000}).Draw(t, "length")) + fmt.Sprint(i)}
			if rapid.IntRange(0, 9).Draw(t, "start") == 0 {
				e = Event{Kind: EventStart, Role: "worker", Task: rapid.SampledFrom([]string{"run/a", "run/a/b", "run/ab"}).Draw(t, "task")}
			}
			if rapid.IntRange(0, 9).Draw(t, "torn") == 0 {
				f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteString(`{"at":"2026-1` + "\n"); err != nil {
					t.Fatal(err)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := tr.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		task := ""
		for e, err := range ReadTranscript(path) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == EventTorn {
				continue
			}
			if e.Kind == EventStart {
				task = e.Task
			}
			if e.Task == "" {
				e.Task = task
			}
			if k := len(all); k > 0 && e.At.Before(all[k-1].At) {
				t.Fatalf("event %d is older than the one before", k)
			}
			all = append(all, e)
		}
		q := Query{
			From: time.Date(2026, 11, 2, 12, 0, rapid.IntRange(-5, 60).Draw(t, "from"), 0, time.UTC),
			To:   time.Date(2026, 11, 2, 12, 0, rapid.IntRange(-5, 60).Draw(t, "to"), 0, time.UTC),
			Task: rapid.SampledFrom([]string{"", "run/a", "run/ab"}).Draw(t, "of"),
			Text: rapid.SampledFrom([]string{"", "x1"}).Draw(t, "text"),
		}
		if rapid.Bool().Draw(t, "kinds") {
			q.Kinds = []string{EventStart}
		}
		var want, got []string
		for _, e := range all {
			if !e.At.Before(q.From) && !e.At.After(q.To) && (q.Task == "" || e.Task == q.Task || strings.HasPrefix(e.Task, q.Task+"/")) &&
				(len(q.Kinds) == 0 || e.Kind == EventStart) && (q.Text == "" || strings.Contains(e.Text, q.Text)) {
				want = append(want, fmt.Sprintln(e.At, e.Kind, e.Task, len(e.Text)))
			}
		}
		for e, err := range q.Events(path) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintln(e.At, e.Kind, e.Task, len(e.Text)))
		}
		if strings.Join(got, "") != strings.Join(want, "") {
			t.Errorf("query %+v\n%s\nwant\n%s", q, got, want)
		}
		most := rapid.IntRange(1, 12).Draw(t, "most")
		newest, err := q.Newest(path, most)
		if err != nil {
			t.Fatal(err)
		}
		got, want = nil, want[max(0, len(want)-most):]
		for _, e := range newest {
			got = append(got, fmt.Sprintln(e.At, e.Kind, e.Task, len(e.Text)))
		}
		if strings.Join(got, "") != strings.Join(want, "") {
			t.Errorf("newest %d of %+v\n%s\nwant\n%s", most, q, got, want)
		}
	})
}

// The task of an agent at a moment is that of its last start before, however far back
// that is and wherever it lies among the blocks that are read; what only looks like a
// start is none.
func TestTheTaskAtAMomentIsThatOfTheLastStart(t *testing.T) {
	for _, pad := range []int{0, 100, 32<<10 - 300, 32<<10 - 100, 32<<10 - 60, 200 << 10} {
		state := t.TempDir()
		tr, err := OpenTranscript(TranscriptInput{State: state, Run: "run", Agent: "w", Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		looks := Event{Kind: EventCall, Tool: "x", Args: []byte(`{"a":1,"kind":"start","task":"run/none"}`), Text: `,"kind":"start",`}
		for _, e := range []Event{
			{Kind: EventStart, Task: "run/old"},
			{Kind: EventStart, Task: "run/new"},
			looks,
			{Kind: EventNote, Text: strings.Repeat("x", pad)},
			looks,
			{Kind: EventNote, Text: "asked"},
		} {
			if err := tr.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		list, err := Query{Text: "asked"}.Newest(TranscriptPath(state, "run", "w"), 1)
		if err != nil || len(list) != 1 || list[0].Task != "run/new" {
			t.Errorf("after %d bytes: %+v, %v; want an event of run/new", pad, list, err)
		}
	}
}

// Each of many writers, more than sync at a time, has its own file synced, and
// trouble with one is no trouble of another.
func TestSyncsOfMany(t *testing.T) {
	var group SyncGroup
	var wg sync.WaitGroup
	dir := t.TempDir()
	for i := range 3 * syncersOf {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for range 3 {
				if _, err := f.WriteString("x\n"); err != nil {
					t.Error(err)
				}
				if err := group.Sync(f); err != nil {
					t.Error(err)
				}
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if err := group.Sync(f); err == nil {
				t.Error("a closed file is synced")
			}
		})
	}
	wg.Wait()
}

// BenchmarkTranscriptWrite is the time to write one event of the usual length,
// with two secrets to be looked for.
func BenchmarkTranscriptWrite(b *testing.B) {
	tr, err := OpenTranscript(TranscriptInput{
		State: b.TempDir(), Run: "run", Agent: "w", Now: time.Now,
		Secrets: []model.Secret{model.NewSecret("sk-0123456789abcdefghijkl"), model.NewSecret("whsec-0123456789")},
	})
	if err != nil {
		b.Fatal(err)
	}
	e := Event{Kind: EventResult, Tool: "read", Call: "call_17", Text: strings.Repeat("    12\tfunc main() {}\n", 20), Took: 1234567}
	b.ReportAllocs()
	for b.Loop() {
		if err := tr.Add(e); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	if err := tr.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkTranscriptQuery asks for one minute of one agent, and for one minute of
// all, in the transcripts of 300 agents. TRANSCRIPT_EVENTS sets how many events
// there are in all; 0.3 million unless it is set.
func BenchmarkTranscriptQuery(b *testing.B) {
	total := 300_000
	if s := os.Getenv("TRANSCRIPT_EVENTS"); s != "" {
		if _, err := fmt.Sscan(s, &total); err != nil {
			b.Fatal(err)
		}
	}
	state, began := b.TempDir(), time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	const agents = 300
	for a := range agents {
		now := began
		tr, err := OpenTranscript(TranscriptInput{State: state, Run: "run", Agent: fmt.Sprintf("w-%03d", a), Now: func() time.Time { now = now.Add(5 * time.Second); return now }})
		if err != nil {
			b.Fatal(err)
		}
		for i := range total / agents {
			if err := tr.Add(Event{Kind: EventResult, Tool: "read", Call: "call_17", Text: fmt.Sprintf("event %d of an agent, and a few words more, as results have them", i)}); err != nil {
				b.Fatal(err)
			}
		}
		if err := tr.Close(); err != nil {
			b.Fatal(err)
		}
	}
	middle := began.Add(time.Duration(total/agents/2) * 5 * time.Second)
	for name, q := range map[string]Query{
		"agent":     {Run: "run", Agent: "w-150", From: middle, To: middle.Add(time.Minute)},
		"allAgents": {Run: "run", From: middle, To: middle.Add(time.Minute)},
	} {
		b.Run(name, func(b *testing.B) {
			found := 0
			for b.Loop() {
				files, err := q.Transcripts(state)
				if err != nil {
					b.Fatal(err)
				}
				found = 0
				for _, file := range files {
					for _, err := range q.Events(file) {
						if err != nil {
							b.Fatal(err)
						}
						found++
					}
				}
			}
			b.ReportMetric(float64(found), "found")
		})
	}
}
