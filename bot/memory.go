package bot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"greenward/internal/git"
)

// memory is what the bot would have to ask people again without it: losing it
// costs questions and look-ups, never a wrong landing.
type memory struct {
	path string

	Version  int           `json:"version"`
	Cursor   time.Time     `json:"cursor"`   // all issues that changed before were dealt with; GitHub's clock
	Cooldown time.Time     `json:"cooldown"` // no request before; our clock
	Strikes  int           `json:"strikes"`  // rate limits in a row that named no time
	Pulls    map[int]*pull `json:"pulls"`
}

// pull is what the bot knows of one pull request.
type pull struct {
	Head    git.Hash  `json:"head"`
	Base    string    `json:"base"`
	Since   time.Time `json:"since"` // GitHub's clock when Head on Base was first seen
	Draft   bool      `json:"draft,omitempty"`
	Before  git.Hash  `json:"before,omitempty"`  // the head seen before it
	Read    time.Time `json:"read,omitzero"`     // all comments before were dealt with; GitHub's clock
	Handled int64     `json:"handled,omitempty"` // the last request that was decided
	Entry   git.Hash  `json:"entry,omitempty"`   // the head that was submitted
	Target  string    `json:"target,omitempty"`  // the base it was approved for
	By      string    `json:"by,omitempty"`      // who approved it
	Note    string    `json:"note,omitempty"`    // why the last request was not taken
	Said    string    `json:"said,omitempty"`    // digest of the comment as written
	Checked string    `json:"checked,omitempty"` // digest of the check run as written
	Closed  time.Time `json:"closed,omitzero"`
	Done    bool      `json:"done,omitempty"` // closed, and nothing more to say
}

func loadMemory(path string) (*memory, error) {
	m := &memory{path: path, Version: 1, Pulls: map[int]*pull{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the bot's memory: %w", err)
	}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("read %s (it may be removed: what it held is looked up or asked again): %w", path, err)
	}
	if m.Version != 1 {
		return nil, fmt.Errorf("read %s: version %d is newer than this program", path, m.Version)
	}
	if m.Pulls == nil {
		m.Pulls = map[int]*pull{}
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

// tracked reports whether there is something to say about p.
func (p *pull) tracked() bool { return !p.Entry.IsZero() || p.Note != "" }
