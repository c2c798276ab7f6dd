package agents

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"greenward/agents/model"
	"greenward/internal/git"
)

// Kinds of transcript events.
const (
	EventStart   = "start"   // an episode begins: role, model, hash of the prompt
	EventMessage = "message" // one message of the conversation, as it was sent or received
	EventCall    = "call"    // a tool is about to run
	EventResult  = "result"  // what it gave
	EventReply   = "reply"   // accounting of one model call that was answered
	EventNote    = "note"    // what the harness did; with a usage, a model call in vain
	EventFresh   = "fresh"   // the conversation begins anew: the messages that follow are all of it
	EventEnd     = "end"     // how the episode ended
	EventTorn    = "torn"    // a line that a crash cut off; only ever read
)

// Event is one line of a transcript.
type Event struct {
	At      time.Time       `json:"at"`
	Agent   string          `json:"agent"`
	Kind    string          `json:"kind"`
	Role    string          `json:"role,omitempty"` // of the agent, in a start
	Task    string          `json:"task,omitempty"`
	Claim   string          `json:"claim,omitempty"`  // under which a worker works, in a start
	Prompt  string          `json:"prompt,omitempty"` // hash of the system prompt's text
	Base    git.Hash        `json:"base,omitempty"`   // the commit of main that a worker began on, in a start
	Tree    git.Hash        `json:"tree,omitempty"`   // the files that were submitted, in a note
	Model   string          `json:"model,omitempty"`
	Message *model.Message  `json:"message,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Call    string          `json:"call,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
	Text    string          `json:"text,omitempty"`
	Usage   *model.Usage    `json:"usage,omitempty"`
	Took    time.Duration   `json:"took,omitempty"`
	Outcome string          `json:"outcome,omitempty"`
}

// Transcript is the record of one agent: a line for every message, call and
// result, written before anything follows from it. It is safe for concurrent use;
// a nil Transcript records nothing.
type Transcript struct {
	agent  string
	path   string
	now    func() time.Time
	redact func([]byte) []byte
	hide   func(string) string
	keys   []model.Secret
	group  *SyncGroup

	mu   sync.Mutex
	file *os.File
	last time.Time // no event is older than the one before it, whatever the clock does
}

// TranscriptPath is the file of an agent's transcript below the hub's state.
func TranscriptPath(state, run, agent string) string {
	return filepath.Join(state, "runs", run, agent+".jsonl")
}

// TranscriptInput says where a transcript goes.
type TranscriptInput struct {
	State, Run, Agent string           // required
	Now               func() time.Time // required
	Secrets           []model.Secret   // replaced by dots in every line, in their encoded forms too
	Group             *SyncGroup       // shared by the transcripts of a process; nil: one of its own
}

// OpenTranscript appends to the transcript of an agent. A line that a crash left
// unfinished is closed first, so that it spoils no other.
func OpenTranscript(in TranscriptInput) (*Transcript, error) {
	if err := errors.Join(checkPart(in.Run), checkPart(in.Agent)); err != nil {
		return nil, fmt.Errorf("open the transcript of %q: %w", in.Agent, err)
	}
	path := TranscriptPath(in.State, in.Run, in.Agent)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("open the transcript of %s: %w", in.Agent, err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the transcript of %s: %w", in.Agent, err)
	}
	if err := closeLine(file); err != nil {
		return nil, errors.Join(fmt.Errorf("open the transcript of %s: %w", in.Agent, err), file.Close())
	}
	t := &Transcript{
		agent: in.Agent, path: path, now: in.Now, redact: model.ByteRedactor(in.Secrets...), group: in.Group, file: file,
		hide: model.Redactor(in.Secrets...), keys: in.Secrets,
	}
	if t.group == nil {
		t.group = &SyncGroup{}
	}
	if t.last, err = lastTime(file); err != nil {
		return nil, errors.Join(fmt.Errorf("open the transcript of %s: %w", in.Agent, err), file.Close())
	}
	return t, nil
}

func closeLine(file *os.File) error {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	var last [1]byte
	if _, err := file.ReadAt(last[:], info.Size()-1); err != nil {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	_, err = file.Write([]byte("\n"))
	return err
}

// Add writes events in one write, stamped with time and agent.
func (t *Transcript) Add(events ...Event) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.group.lend()
	defer t.group.give(lines)
	for _, e := range events {
		if e.At, e.Agent = t.now().UTC(), t.agent; e.At.Before(t.last) {
			e.At = t.last
		}
		t.last = e.At
		t.plain(&e)
		if err := lines.enc.Encode(e); err != nil {
			return fmt.Errorf("write the transcript of %s: %w", t.agent, err)
		}
	}
	if _, err := t.file.Write(t.redact(lines.buf.Bytes())); err != nil {
		return fmt.Errorf("write the transcript of %s: %w", t.agent, err)
	}
	return nil
}

// plain takes out of an event's texts what is a key only once it is read as JSON:
// within a line it is escaped once more, where nobody would know it.
func (t *Transcript) plain(e *Event) {
	escapes := func(text string) bool { return strings.Contains(text, `\u`) }
	if escapes(e.Text) {
		e.Text = t.hide(e.Text)
	}
	if escapes(string(e.Args)) {
		e.Args = json.RawMessage(t.hide(string(e.Args)))
	}
	if e.Message == nil || !escapes(e.Message.Text) && !slices.ContainsFunc(e.Message.Calls, func(c model.ToolCall) bool { return escapes(c.Arguments) || escapes(c.Raw) }) {
		return
	}
	m := *e.Message
	m.Text, m.Calls = t.hide(m.Text), slices.Clone(m.Calls)
	for i := range m.Calls {
		m.Calls[i].Arguments, m.Calls[i].Raw = t.hide(m.Calls[i].Arguments), t.hide(m.Calls[i].Raw)
	}
	e.Message = &m
}

// Redact is a text without the keys that this transcript is kept free of. What an
// agent is shown goes through it, before it is cut anywhere.
func (t *Transcript) Redact(text string) string {
	if t == nil {
		return text
	}
	return t.hide(text)
}

// Filter does the same to a text that comes in pieces, and writes it to w; more keys
// go, too.
func (t *Transcript) Filter(w io.Writer, more ...model.Secret) *model.Filter {
	if t != nil {
		more = slices.Concat(t.keys, more)
	}
	return model.NewFilter(w, more...)
}

// Sync returns when all that was added is on disk. What is synced at the same time
// for other agents costs little more.
func (t *Transcript) Sync() error {
	if t == nil {
		return nil
	}
	if err := t.group.Sync(t.file); err != nil {
		return fmt.Errorf("sync the transcript of %s: %w", t.agent, err)
	}
	return nil
}

// Close ends the transcript.
func (t *Transcript) Close() error {
	if t == nil {
		return nil
	}
	return t.file.Close()
}

// ReadTranscript gives the events of a file in order. A torn line comes as an
// EventTorn with its text; it ends nothing.
func ReadTranscript(path string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		file, err := os.Open(path)
		if err != nil {
			yield(Event{}, fmt.Errorf("read transcript: %w", err))
			return
		}
		defer file.Close() //nolint:errcheck // nothing was written
		in := bufio.NewReader(file)
		for {
			line, err := in.ReadBytes('\n')
			if text := bytes.TrimSpace(line); len(text) > 0 {
				var e Event
				if json.Unmarshal(text, &e) != nil || e.Kind == "" {
					e = Event{Kind: EventTorn, Text: string(text)}
				}
				if !yield(e, nil) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Event{}, fmt.Errorf("read transcript %q: %w", path, err))
				return
			}
		}
	}
}
