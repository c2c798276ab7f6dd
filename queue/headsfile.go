package queue

import (
	"os"
	"path/filepath"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// headsFrom is how many heads that had to be read make it worth while to write them down.
const headsFrom = 1_000

func (l *Lander) headsPath() string { return filepath.Join(l.Hub.State(), "journal", "queue-heads") }

// recall takes up what an earlier listing wrote down, for listings alone.
func (l *Lander) recall() {
	data, err := os.ReadFile(l.headsPath())
	if err != nil {
		return // nobody listed many
	}
	for h, head := range journal.ParseListed(data) {
		l.commits[h] = Waiting{Head: h, Since: head.Since, Priority: head.Priority, Lane: head.Lane}
	}
}

// writeDown has the next listing find what this one read, where that was much.
func (l *Lander) writeDown(before map[git.Hash]Waiting) {
	list, fresh := make(map[git.Hash]journal.Listed, len(l.commits)), 0
	for h, w := range l.commits {
		if w.Since.IsZero() {
			continue // it could not be read; it may come yet
		}
		list[h] = journal.Listed{Since: w.Since, Priority: w.Priority, Lane: w.Lane}
		if _, known := before[h]; !known {
			fresh++
		}
	}
	if fresh < headsFrom {
		return
	}
	// Who may only read the hub reads it slowly, and that is all.
	if err := os.MkdirAll(filepath.Dir(l.headsPath()), 0o755); err != nil {
		return
	}
	aside, err := os.CreateTemp(filepath.Dir(l.headsPath()), "queue-heads-*")
	if err != nil {
		return
	}
	_, err = aside.Write(journal.FormatListed(list))
	if closed := aside.Close(); err == nil && closed == nil {
		err = os.Rename(aside.Name(), l.headsPath())
	}
	if err != nil {
		_ = os.Remove(aside.Name())
	}
}
