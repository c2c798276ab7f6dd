package again

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"greenward/agents"
	"greenward/agents/model"
	"greenward/internal/git"
)

// Record is what a transcript tells of one conversation.
type Record struct {
	Start  agents.Event
	Text   string   // the first thing that the worker was told
	Tree   git.Hash // the files of its first hand-off; empty: none was submitted
	Cut    bool     // a killed process left it in the middle, and it was gone on with
	Events []agents.Event
}

// resumed is the note of a conversation that another process goes on with.
const resumed = "resumed after an interruption"

// Last is the newest conversation that a worker's transcript tells of, to its first
// hand-off. events are those of one agent, in order.
func Last(events []agents.Event) (Record, error) {
	at := -1
	for i, e := range events {
		if e.Kind == agents.EventStart && e.Role == "worker" {
			at = i
		}
	}
	if at < 0 {
		return Record{}, errors.New("its transcript has no conversation of a worker: what planners and judges do is not run again")
	}
	r := Record{Start: events[at]}
	switch {
	case r.Start.Model == "" && r.Start.Base == "":
		return Record{}, errors.New("another program did that work: its replies are not in the transcript")
	case r.Start.Base == "":
		return Record{}, errors.New("its transcript does not say on which commit of main it began: an older greenward wrote it")
	}
	r.take(events[at+1:])
	return r, nil
}

// take reads the events of a conversation from its start on, to its first hand-off.
func (r *Record) take(events []agents.Event) {
	ended := false
	for _, e := range events {
		switch {
		case ended && e.Tree != "" && strings.HasPrefix(e.Text, "submitted "):
			r.Tree = e.Tree
			return
		case ended && e.Kind == agents.EventMessage:
			return
		case ended:
			continue
		case e.Kind == agents.EventNote && e.Text == resumed:
			r.Cut = true
			return
		case e.Kind == agents.EventEnd:
			ended = true
		}
		if r.Text == "" && e.Kind == agents.EventMessage && e.Message != nil && e.Message.Role == model.User {
			r.Text = e.Message.Text
		}
		r.Events = append(r.Events, e)
	}
}

// Comparison is what came of running a conversation again.
type Comparison struct {
	Replies int     `json:"replies"` // that were given again
	Calls   int     `json:"calls"`   // of tools, in the record
	Prompt  bool    `json:"prompt"`  // whether the words of the role are the same
	Same    bool    `json:"same"`    // whether all that was compared is
	Cut     bool    `json:"cut"`     // whether the record ends where a process was killed
	Parted  *Parted `json:"parted"`
	Tree    struct {
		Recorded *git.Hash `json:"recorded"`
		Again    *git.Hash `json:"again"`
		Differ   []string  `json:"differ"` // paths
	} `json:"tree"`
}

// Parted is the first place at which record and repetition differ.
type Parted struct {
	At       time.Time `json:"at"`   // in the record
	Call     int       `json:"call"` // of Calls, from 1; the one before it where no call differs
	What     string    `json:"what"` // of a kind: told, reply, or a tool with its arguments
	Recorded string    `json:"recorded"`
	Again    string    `json:"again"`
}

// Input is what it takes to run a conversation again.
type Input struct {
	Record Record
	Task   agents.Task                    // as it was
	Worker *agents.Worker                 // whose mind gives the replies of the record
	Events func() ([]agents.Event, error) // all that the worker's transcript has
	Places []string                       // the directories of both workspaces, which texts may name
}

// Run works through a record, and compares.
func Run(ctx context.Context, in Input) (c Comparison, err error) {
	r := in.Record
	var tree git.Hash
	var files []string
	err = in.Worker.Rehearse(ctx, agents.Rehearsal{
		Task: in.Task, Base: r.Start.Base, Text: r.Text,
		Look: func(ctx context.Context, repo *git.Repo, now git.Hash) (err error) {
			if tree = now; r.Tree != "" && r.Tree != now {
				files, err = repo.ChangedPaths(ctx, r.Tree, now)
			}
			return err
		},
	})
	if err != nil && !errors.Is(err, ErrRecordEnds) {
		return c, err
	}
	events, err := in.Events()
	if err != nil {
		return c, err
	}
	at := slices.IndexFunc(events, func(e agents.Event) bool { return e.Kind == agents.EventStart })
	if at < 0 {
		return c, errors.New("run a conversation again: it left no transcript")
	}
	c = Compare(r, events[at], events[at+1:], in.Places...)
	c.Tree.Differ = append([]string{}, files...)
	c.Tree.Again = &tree
	if r.Tree != "" {
		c.Tree.Recorded = &r.Tree
		c.Same = c.Same && tree == r.Tree
	}
	return c, nil
}

// step is one thing that a conversation consists of.
type step struct {
	at   time.Time
	what string
	text string
	call bool
}

// Compare holds what happened again against a record.
func Compare(r Record, start agents.Event, events []agents.Event, places ...string) Comparison {
	c := Comparison{Prompt: start.Prompt == r.Start.Prompt, Cut: r.Cut}
	was, is := steps(r.Events, places), steps(events, places)
	for _, e := range events {
		if e.Kind == agents.EventReply {
			c.Replies++
		}
	}
	call := 0
	for i, s := range was {
		if s.call {
			call++
		}
		if c.Parted != nil || i < len(is) && is[i].what == s.what && is[i].text == s.text {
			continue
		}
		c.Parted = &Parted{At: s.at, Call: call, What: s.what, Recorded: s.text, Again: "(nothing: it ended before)"}
		if i < len(is) {
			c.Parted.Again = is[i].text
			if is[i].what != s.what {
				c.Parted.Again = is[i].what + ": " + is[i].text
			}
		}
	}
	if more := len(was); c.Parted == nil && len(is) > more && !unanswered(r) {
		c.Parted = &Parted{At: is[more].at, Call: call, What: is[more].what, Recorded: "(nothing: it ended before)", Again: is[more].text}
	}
	c.Calls, c.Same = call, c.Parted == nil
	return c
}

// unanswered reports whether a record ends in calls that have no result: a process was
// killed there.
func unanswered(r Record) bool {
	open := 0
	for _, e := range r.Events {
		switch e.Kind {
		case agents.EventMessage:
			if e.Message != nil && e.Message.Role == model.Assistant {
				open = len(e.Message.Calls)
			}
		case agents.EventResult:
			open--
		case agents.EventEnd:
			return false
		}
	}
	return open > 0
}

// steps are what of a conversation can be compared.
func steps(events []agents.Event, places []string) []step {
	plain := plainer(places)
	var all []step
	args := map[string]string{}
	for _, e := range events {
		switch e.Kind {
		case agents.EventMessage:
			if e.Message == nil || e.Message.Role == model.System {
				continue
			}
			what := "told"
			var text strings.Builder
			text.WriteString(e.Message.Text)
			if e.Message.Role == model.Assistant {
				what = "reply"
				for _, call := range e.Message.Calls {
					text.WriteString("\n→ " + call.Name + " " + cmp.Or(call.Raw, call.Arguments))
				}
			}
			all = append(all, step{at: e.At, what: what, text: plain(text.String())})
		case agents.EventCall:
			args[e.Call] = string(e.Args)
		case agents.EventResult:
			all = append(all, step{at: e.At, what: strings.TrimSpace(e.Tool + " " + args[e.Call]), text: plain(e.Text), call: true})
		case agents.EventEnd:
			return all
		}
	}
	return all
}

// plainer makes texts alike that differ in nothing but times and places.
func plainer(places []string) func(string) string {
	took := regexp.MustCompile(`\b(\d+(\.\d+)?(ns|µs|ms|s|m|h))+\b`)
	spool := regexp.MustCompile(`\S*/(shell|job)-\d+\.txt`)
	var pairs []string
	for _, place := range places {
		pairs = append(pairs, place, "/workspace")
	}
	names := strings.NewReplacer(pairs...)
	return func(text string) string {
		return took.ReplaceAllString(spool.ReplaceAllString(names.Replace(text), "$1.txt"), "·")
	}
}

// String says it for people.
func (c Comparison) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d replies were given again, to %d calls of tools\n", c.Replies, c.Calls)
	if c.Cut {
		b.WriteString("the record was compared up to where a process was killed\n")
	}
	if !c.Prompt {
		b.WriteString("the words of the role are not those of the record\n")
	}
	if p := c.Parted; p == nil {
		b.WriteString("all results are the same\n")
	} else {
		fmt.Fprintf(&b, "they part at call %d, %s, of %s\n  recorded: %s\n  again:    %s\n", p.Call, git.OneLine(p.What), p.At.UTC().Format(time.RFC3339), excerpt(p.Recorded, p.Again), excerpt(p.Again, p.Recorded))
	}
	switch t := c.Tree; {
	case t.Recorded == nil:
		b.WriteString("the record has no hand-off whose files could be compared")
	case *t.Again == *t.Recorded:
		b.WriteString("the files are the same: tree " + string(*t.Again))
	default:
		fmt.Fprintf(&b, "%d files differ from those handed in: %s", len(t.Differ), strings.Join(t.Differ[:min(len(t.Differ), 20)], ", "))
	}
	return b.String()
}

// excerpt is a text from shortly before where it differs from another.
func excerpt(text, other string) string {
	const before, most = 40, 200
	at := 0
	for at < min(len(text), len(other)) && text[at] == other[at] {
		at++
	}
	head := ""
	if at > before {
		head, text = "…", text[at-before:]
	}
	if len(text) > most {
		text = text[:most] + "…"
	}
	return head + strings.ToValidUTF8(git.OneLine(text), "")
}
