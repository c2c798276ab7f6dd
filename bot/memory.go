package bot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"greenward/bot/herald"
	"greenward/internal/git"
)

// memory is what the bot would have to ask people again without it: losing it
// costs questions and look-ups, never a wrong landing.
type memory struct {
	path string
	born bool // there was none before

	Record  string         `json:"record,omitempty"` // which record of effects it goes with
	Version int            `json:"version"`
	Cursor  time.Time      `json:"cursor"` // all issues that changed before were dealt with; GitHub's clock
	Pulls   map[int]*pull  `json:"pulls"`
	Issues  map[int]*issue `json:"issues,omitempty"`
	Quiet   []quiet        `json:"quiet,omitempty"`
	Green   herald.Told    `json:"green,omitzero"`
	Reruns  []string       `json:"reruns,omitempty"` // deliveries that asked for a check to be run again and were dealt with
}

// pull is what the bot knows of one pull request.
type pull struct {
	Head   git.Hash  `json:"head"`
	Base   string    `json:"base"`
	Since  time.Time `json:"since"` // GitHub's clock when Head on Base was first seen
	Draft  bool      `json:"draft,omitempty"`
	Before git.Hash  `json:"before,omitempty"` // the head seen before it
	Author int64     `json:"author,omitempty"`
	Branch string    `json:"branch,omitempty"` // the head's branch; "" where it is a fork's
	Labels []string  `json:"labels,omitempty"`
	Fresh  bool      `json:"fresh,omitempty"` // the record of effects tells all that was ever written about it

	Read    time.Time `json:"read,omitzero"`     // all comments before were dealt with; GitHub's clock
	Wrote   time.Time `json:"wrote,omitzero"`    // when GitHub says that we wrote last
	Handled int64     `json:"handled,omitempty"` // the last comment with a command that was dealt with
	Event   int64     `json:"event,omitempty"`   // the label event that was dealt with last

	Entry   git.Hash  `json:"entry,omitempty"`   // the head that was approved
	Target  string    `json:"target,omitempty"`  // the base it was approved for
	By      Actor     `json:"by,omitzero"`       // who approved it
	Why     string    `json:"why,omitempty"`     // by what
	At      time.Time `json:"at,omitzero"`       // when that was written
	Pending bool      `json:"pending,omitempty"` // approved, and not in the queue yet
	Void    string    `json:"void,omitempty"`    // why the approval was taken back
	ByLabel bool      `json:"by_label,omitempty"`
	Level   int       `json:"level,omitempty"`

	Hold      string          `json:"hold,omitempty"` // why it is kept from landing
	Delegates []Actor         `json:"delegates,omitempty"`
	Halves    map[string]half `json:"halves,omitempty"` // of an approval in Prow's way
	Trial     *trial          `json:"trial,omitempty"`

	Note      string    `json:"note,omitempty"`       // what the last command was answered
	Asked     bool      `json:"asked,omitempty"`      // somebody wants to hear how it stands
	Said      string    `json:"said,omitempty"`       // digest of the comment as written
	Attempt   int       `json:"attempt,omitempty"`    // of the check run
	CheckDone bool      `json:"check_done,omitempty"` // it was written as completed
	Checked   string    `json:"checked,omitempty"`    // digest of the check run as written
	Closed    time.Time `json:"closed,omitzero"`
	Tidied    bool      `json:"tidied,omitempty"` // what follows a landing on GitHub is done
	Done      bool      `json:"done,omitempty"`   // closed, and nothing more to say

	out     Outcome   // as of this reconcile
	gated   string    // why it waits, as of the last look
	checked time.Time // when that look was
}

// quiet is a commit that is awaited and that no run spoke of.
type quiet struct {
	Commit git.Hash  `json:"commit"`
	Since  time.Time `json:"since"`
	Asked  bool      `json:"asked,omitempty"` // for a run, or it has one
}

// half is one of the two words that approve in Prow's way.
type half struct {
	Head git.Hash `json:"head"`
	By   Actor    `json:"by"`
}

// trial is a try that somebody asked for.
type trial struct {
	Head git.Hash  `json:"head"`
	By   Actor     `json:"by"`
	At   time.Time `json:"at"`

	last Trial
}

// issue is what the bot knows of one issue that asked for runs.
type issue struct {
	Runs    []string  `json:"runs,omitempty"`    // oldest first
	Handled int64     `json:"handled,omitempty"` // the last comment that was dealt with
	Note    string    `json:"note,omitempty"`
	Said    string    `json:"said,omitempty"`
	At      time.Time `json:"at,omitzero"` // when it was said
	Done    bool      `json:"done,omitempty"`

	text  string // what is to be said, as of this reconcile
	late  bool   // it is progress only and may wait
	noted string // the note that was in it last
}

func loadMemory(path string) (*memory, error) {
	m := &memory{path: path, Version: 2}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the bot's memory: %w", err)
	}
	m.born = err != nil
	if err == nil {
		var before struct {
			Version int `json:"version"`
		}
		if err := json.Unmarshal(data, &before); err != nil {
			return nil, fmt.Errorf("read %s (it may be removed: what it held is looked up or asked again): %w", path, err)
		}
		switch {
		case before.Version > 2:
			return nil, fmt.Errorf("read %s: version %d is newer than this program", path, before.Version)
		case before.Version == 2:
			if err := json.Unmarshal(data, m); err != nil {
				return nil, fmt.Errorf("read %s (it may be removed: what it held is looked up or asked again): %w", path, err)
			}
		}
	}
	m.born = m.born || m.Record == ""
	if m.Pulls == nil {
		m.Pulls = map[int]*pull{}
	}
	if m.Issues == nil {
		m.Issues = map[int]*issue{}
	}
	return m, nil
}

// save replaces the file as a whole.
func (m *memory) save() error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the bot's memory: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(m.path), "memory-*")
	if err != nil {
		return fmt.Errorf("write the bot's memory: %w", err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), m.path)
	}
	if err != nil {
		return fmt.Errorf("write the bot's memory: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// goesWith makes the memory go with a record of effects. With another one than
// before, what was written has to be looked up.
func (m *memory) goesWith(record string) {
	if m.Record == record {
		return
	}
	m.Record, m.born = record, true
	for _, p := range m.Pulls {
		p.Fresh = false
	}
}

// tracked reports whether there is something to say about p.
func (p *pull) tracked() bool {
	return !p.Entry.IsZero() || p.Note != "" || p.Hold != "" || p.Trial != nil || p.Asked
}

func (m *memory) issue(number int) *issue {
	i := m.Issues[number]
	if i == nil {
		i = &issue{}
		m.Issues[number] = i
	}
	return i
}
