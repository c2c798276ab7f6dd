package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"greenward/agents/model"
)

// Meter sums the tokens that the transcripts of a run report. It reads each
// transcript on from where it was, so that asking often costs little. It is safe
// for concurrent use.
type Meter struct {
	State string // required: the hub's directory for what need not survive

	mu   sync.Mutex
	read map[string]int64 // bytes, by file
	sums map[string]model.Usage
}

// Spent is what a run has used on this host so far.
func (m *Meter) Spent(run string) (model.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read == nil {
		m.read, m.sums = map[string]int64{}, map[string]model.Usage{}
	}
	files, err := filepath.Glob(TranscriptPath(m.State, run, "*"))
	if err != nil {
		return model.Usage{}, fmt.Errorf("list transcripts of %q: %w", run, err)
	}
	for _, file := range files {
		if err := m.more(run, file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return model.Usage{}, fmt.Errorf("read what %q has spent: %w", run, err)
		}
	}
	return m.sums[run], nil
}

// more adds the whole lines of a transcript that were not read before.
func (m *Meter) more(run, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	if _, err := f.Seek(m.read[file], io.SeekStart); err != nil {
		return err
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	for line := range bytes.Lines(whole) {
		var e struct {
			Kind  string       `json:"kind"`
			Usage *model.Usage `json:"usage"`
		}
		if json.Unmarshal(line, &e) == nil && e.Kind == EventReply && e.Usage != nil {
			m.sums[run] = m.sums[run].Add(*e.Usage)
		}
	}
	m.read[file] += int64(len(whole))
	return nil
}
