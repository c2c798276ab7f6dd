package agents

import (
	"bytes"
	"encoding/json"
	"os"
	"sync"
)

// SyncGroup syncs files to disk for many writers: at most so many at a time that
// the journal of the file system takes them up together, and no writer waits for
// another one's file. The zero value is ready; it is safe for concurrent use.
type SyncGroup struct {
	once  sync.Once
	turns chan struct{}
	lines sync.Pool // of *lines: what an event is written into, used again
}

// lines are events as a transcript has them.
type lines struct {
	buf bytes.Buffer
	enc *json.Encoder
}

// keptLines is up to which size a buffer is used again: single messages may be huge.
const keptLines = 64 << 10

func (g *SyncGroup) lend() *lines {
	if l, ok := g.lines.Get().(*lines); ok {
		l.buf.Reset()
		return l
	}
	l := &lines{}
	l.enc = json.NewEncoder(&l.buf)
	l.enc.SetEscapeHTML(false)
	return l
}

func (g *SyncGroup) give(l *lines) {
	if l.buf.Cap() <= keptLines {
		g.lines.Put(l)
	}
}

// syncersOf is how many files are synced at the same time. 300 writers had twice as
// many synced a second by 64 as by 16, and half the wait; each is a thread.
const syncersOf = 64

// Sync returns when all that was written to f before is on disk.
func (g *SyncGroup) Sync(f *os.File) error {
	g.once.Do(func() { g.turns = make(chan struct{}, syncersOf) })
	g.turns <- struct{}{}
	defer func() { <-g.turns }()
	return f.Sync()
}
