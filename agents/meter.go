package agents

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"greenward/agents/model"
)

// Meter sums the tokens that the transcripts of a run report. It reads each
// transcript on from where it was, so that asking often costs little. It is safe
// for concurrent use.
type Meter struct {
	State string // required: the hub's directory for what need not survive

	mu   sync.Mutex
	read map[string]*metering // by file
	runs map[string]map[SpentBy]model.Usage
}

// SpentBy is who spent something on which model.
type SpentBy struct {
	Owner string // the task, or the planner's path
	Agent string
	Model string // as the server names it
	Asked string // as it was asked for
}

// Spending is what somebody spent.
type Spending struct {
	SpentBy
	model.Usage
}

type metering struct {
	at    int64  // bytes read
	owner string // of what follows
	asked string // the model of what follows
}

// Spent is what a run has used on this host so far.
func (m *Meter) Spent(run string) (model.Usage, error) {
	all, err := m.By(run)
	var sum model.Usage
	for _, one := range all {
		sum = sum.Add(one.Usage)
	}
	return sum, err
}

// By is what a run has used on this host so far, by owner, agent and model.
func (m *Meter) By(run string) ([]Spending, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read == nil {
		m.read, m.runs = map[string]*metering{}, map[string]map[SpentBy]model.Usage{}
	}
	if m.runs[run] == nil {
		m.runs[run] = map[SpentBy]model.Usage{}
	}
	files, err := filepath.Glob(TranscriptPath(m.State, run, "*"))
	if err != nil {
		return nil, fmt.Errorf("list transcripts of %q: %w", run, err)
	}
	for _, file := range files {
		if err := m.more(run, file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read what %q has spent: %w", run, err)
		}
	}
	var all []Spending
	for by, used := range m.runs[run] {
		all = append(all, Spending{by, used})
	}
	slices.SortFunc(all, func(a, b Spending) int {
		return cmp.Or(strings.Compare(a.Owner, b.Owner), strings.Compare(a.Agent, b.Agent), strings.Compare(a.Model, b.Model))
	})
	return all, nil
}

// more adds the whole lines of a transcript that were not read before.
func (m *Meter) more(run, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	state := m.read[file]
	if state == nil {
		state = &metering{owner: run}
		m.read[file] = state
	}
	if _, err := f.Seek(state.at, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // the rest of a line is for the next time
		}
		if err != nil {
			return err
		}
		state.at += int64(len(line))
		m.take(run, state, line)
	}
}

// take counts one line. Most lines are neither a start nor tell of a usage, and are long.
func (m *Meter) take(run string, state *metering, line []byte) {
	if !bytes.Contains(line, []byte(`"usage":{`)) && !bytes.Contains(line, []byte(`"kind":"`+EventStart+`"`)) {
		return
	}
	var e struct {
		Kind  string       `json:"kind"`
		Agent string       `json:"agent"`
		Task  string       `json:"task"`
		Model string       `json:"model"`
		Usage *model.Usage `json:"usage"`
	}
	switch {
	case json.Unmarshal(line, &e) != nil:
	case e.Kind == EventStart && e.Task != "":
		state.owner, state.asked = e.Task, e.Model
	case e.Usage != nil:
		by := SpentBy{Owner: state.owner, Agent: e.Agent, Model: e.Model, Asked: state.asked}
		m.runs[run][by] = m.runs[run][by].Add(*e.Usage)
	}
}
