package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"greenward/agents/model"
	"greenward/agents/prompts"
	"greenward/internal/git"
)

// Prior is what an earlier life of an agent, killed in the middle, said and
// heard under the same claim.
type Prior struct {
	Messages []model.Message
	Began    time.Time
	Steps    int
	Spent    model.Usage
	Open     []model.ToolCall // calls whose results were never recorded
	HandedIn bool             // its hand-off had been taken, but was not submitted
}

// interruptedCall is the result of a call whose outcome nobody knows.
const interruptedCall = "error: interrupted; the outcome of this call is unknown. Look at the state of things before repeating it."

// prior is what the last conversation of a transcript left unfinished, if it was
// about that task under that claim; nil: there is nothing to go on with.
func (t *Transcript) prior(task, claim string) (*Prior, error) {
	if t == nil || claim == "" {
		return nil, nil
	}
	lines, err := lastEpisode(t.path)
	if err != nil {
		return nil, fmt.Errorf("read what %s said last: %w", t.agent, err)
	}
	var h History
	p := &Prior{}
	for line := range bytes.Lines(lines) {
		var e Event
		if json.Unmarshal(line, &e) != nil {
			continue // torn by the crash
		}
		h.Take(e)
		switch e.Kind {
		case EventStart:
			p.Began = e.At
		case EventReply:
			p.Steps++
		}
		if e.Usage != nil {
			p.Spent = p.Spent.Add(*e.Usage)
		}
	}
	if h.Start.Task != task || h.Start.Claim != claim || len(h.Messages) < 2 || h.Start.Role != "worker" {
		return nil, nil
	}
	p.Messages, p.HandedIn = h.Messages, h.Ended
	p.Open = openCalls(h.Messages)
	return p, nil
}

// openCalls are the calls of the last reply that have no result.
func openCalls(messages []model.Message) []model.ToolCall {
	answered := map[string]bool{}
	for _, m := range slices.Backward(messages) {
		switch m.Role {
		case model.Tool:
			answered[m.CallID] = true
		case model.Assistant:
			var open []model.ToolCall
			for _, c := range m.Calls {
				if !answered[c.ID] {
					open = append(open, c)
				}
			}
			return open
		case model.System, model.User:
		}
	}
	return nil
}

// startMark is in every line that begins an episode, and in no text of another:
// there its quotes are escaped.
const startMark = `,"kind":"` + EventStart + `",`

// lastEpisode is the end of a transcript from its last start on. It reads from
// the end, for a transcript holds all that an agent ever did.
func lastEpisode(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	for size := int64(256 << 10); ; size *= 4 {
		from := max(0, info.Size()-size)
		data, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
		if err != nil {
			return nil, err
		}
		if at := lastIndex(data, startMark); at >= 0 {
			if line := bytes.LastIndexByte(data[:at], '\n') + 1; line > 0 || from == 0 {
				return data[line:], nil
			}
		}
		if from == 0 {
			return nil, nil
		}
	}
}

// resume takes up a conversation where another process left it.
func (l *Loop) resume(p *Prior) error {
	l.Limits = l.Limits.withDefaults()
	l.history, l.steps, l.spent = p.Messages, p.Steps, p.Spent
	l.began, l.nudged, l.fresh, l.reminded = l.Now(), map[string]bool{}, p.Steps, p.Steps
	for _, m := range p.Messages {
		l.since += length(m)
		if l.task == "" && m.Role == model.User {
			l.task = m.Text
		}
	}
	if err := l.Transcript.Add(Event{Kind: EventNote, Text: "resumed after an interruption"}); err != nil {
		return err
	}
	for _, c := range p.Open {
		l.add(model.Message{Role: model.Tool, CallID: c.ID, Text: interruptedCall})
		if err := l.Transcript.Add(Event{Kind: EventResult, Tool: c.Name, Call: c.ID, Text: interruptedCall}); err != nil {
			return err
		}
	}
	return nil
}

// restore puts the files back that the earlier life had, as they were, and says
// in words for the model what happened.
func (a *assignment) restore(ctx context.Context, p *Prior) (string, error) {
	facts := prompts.Facts{Detail: "the working tree is a fresh copy of main: nothing of yours was in it"}
	kept, err := a.found(p)
	if err != nil {
		return "", err
	}
	if !kept.Hash.IsZero() {
		if err := a.putBack(ctx, kept); err != nil {
			return "", err
		}
		facts.Detail = "the working tree is as you left it; what git ignores, such as build output, is gone"
	}
	if p.HandedIn {
		facts.Reason = "Your hand-off had been taken, but was not submitted: look whether it still holds, and call `hand_off` again."
	}
	text, err := prompts.Render("resumed", facts)
	return text.Text, err
}

// found is the commit that holds what the earlier life had in its workspace; the
// zero Commit: it had nothing.
func (a *assignment) found(p *Prior) (git.Commit, error) {
	all, err := ListRescued(a.Repo, a.task.ID)
	if err != nil || len(all) == 0 {
		return git.Commit{}, err
	}
	c, err := a.Repo.Commit(all[len(all)-1].Commit)
	if err != nil {
		return git.Commit{}, err
	}
	t := c.Trailers()
	claim, _ := t.Get("Rescued-Claim")
	_, rescue := t.Get("Rescued")
	if claim == a.claim.ID || !rescue && !c.Committer.When.Before(p.Began.Truncate(time.Second)) {
		return c, nil
	}
	return git.Commit{}, nil
}

// putBack makes the workspace what it was: the commits of the mind, and on top
// of them the files as they were found.
func (a *assignment) putBack(ctx context.Context, kept git.Commit) error {
	main, err := a.Repo.Resolve(a.Main)
	if err != nil {
		return err
	}
	repo := a.ws.Repo()
	bases, err := repo.MergeBases(ctx, kept.Hash, main)
	if err != nil || len(bases) != 1 {
		return err // of no line with main: it stays named among the earlier work
	}
	if err := a.ws.Rebase(ctx, bases[0]); err != nil {
		return err
	}
	head := kept.Hash
	_, dirty := kept.Trailers().Get("Rescued")
	if dirty {
		head = kept.Parent()
	}
	if err := a.ws.Reset(ctx, head); err != nil {
		return err
	}
	if !dirty {
		return nil
	}
	_, err = a.ws.Pick(ctx, kept.Hash)
	return err
}
