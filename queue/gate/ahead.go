package gate

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"greenward/internal/config"
	"greenward/internal/git"
)

// Foresee judges what a change does to the contents of its files before it is the
// change's turn, so that Check finds that done where the change lands with the
// same files on both sides. Only what is found in order is remembered: anything
// else is judged when it lands, and said then. It may be called while Check runs.
func (g *Gate) Foresee(ctx context.Context, rules config.Gate, base, head git.Hash) error {
	l := landing{Gate: g, rules: rules, from: base, to: head}
	if err := l.compare(); err != nil {
		return fmt.Errorf("gate %s ahead: %w", head.Short(), err)
	}
	for _, c := range l.changes {
		if !plainFile(c.now) || l.had[c.now.Hash] {
			continue
		}
		before := len(l.found)
		alike, err := l.judge(ctx, c)
		if err != nil {
			return fmt.Errorf("gate %s ahead: %w", head.Short(), err)
		}
		if alike && len(l.found) == before {
			g.ahead.note(rules, c)
		}
	}
	return nil
}

// maxForeseen bounds how many files are remembered.
const maxForeseen = 20_000

// foreseen are changes of files that were found in order under some rules.
type foreseen struct {
	mu    sync.Mutex
	rules config.Gate
	files map[foreseenFile]bool
}

// foreseenFile is a file and its two sides.
type foreseenFile struct {
	path     string
	old, now git.Entry
}

func (f *foreseen) note(rules config.Gate, c change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files == nil || len(f.files) >= maxForeseen || !reflect.DeepEqual(f.rules, rules) {
		f.rules, f.files = rules, map[foreseenFile]bool{}
	}
	f.files[foreseenFile(c)] = true
}

// clean reports whether a change of a file was found in order under these rules.
func (f *foreseen) clean(rules config.Gate, c change) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files[foreseenFile(c)] && reflect.DeepEqual(f.rules, rules)
}
