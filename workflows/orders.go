package workflows

import (
	"strings"
	"sync"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// Orders is what people ordered, read again only when somebody ordered more. It
// is safe for concurrent use.
type Orders struct {
	Repo    *git.Repo // required: the hub
	Trusted []string  // keys whose orders count

	mu   sync.Mutex
	read bool
	tip  git.Hash
	now  journal.Controls
}

// Read is what the orders add up to. The caller must not change it.
func (o *Orders) Read() (journal.Controls, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	tip, err := o.Repo.Tip(git.Control)
	if err != nil || o.read && tip == o.tip {
		return o.now, err
	}
	now, err := journal.ReadControls(o.Repo, o.Trusted)
	if err != nil {
		return now, err
	}
	o.read, o.tip, o.now = true, tip, now
	return now, nil
}

// IsPaused reports whether no work is taken on for a task or a planner: its run, or
// a slice that it lies in, is paused or stopped.
func IsPaused(c journal.Controls, id string) bool {
	for {
		if c.Paused[id] || c.Stopped[id] {
			return true
		}
		at := strings.LastIndexByte(id, '/')
		if at < 0 {
			return false
		}
		id = id[:at]
	}
}
