package agents

import (
	"os"
	"sync"
)

// SyncGroup syncs files to disk for many writers: those that come while a sync is
// under way share the next one. The zero value is ready; it is safe for
// concurrent use.
type SyncGroup struct {
	disk sync.Mutex // held by who syncs

	mu   sync.Mutex
	next *syncBatch
}

type syncBatch struct {
	files map[*os.File]bool
	done  bool
	errs  map[*os.File]error // of those that failed
}

// syncersOf is how many files of a batch are synced at the same time: the file
// system's journal then commits many of them at once.
const syncersOf = 16

// Sync returns when all that was written to f before is on disk.
func (g *SyncGroup) Sync(f *os.File) error {
	g.mu.Lock()
	if g.next == nil {
		g.next = &syncBatch{files: map[*os.File]bool{}}
	}
	batch := g.next
	batch.files[f] = true
	g.mu.Unlock()

	g.disk.Lock()
	defer g.disk.Unlock()
	if batch.done {
		return batch.errs[f]
	}
	g.mu.Lock()
	g.next = nil // who comes now has not been written out by this one
	g.mu.Unlock()
	batch.errs, batch.done = syncAll(batch.files), true
	return batch.errs[f]
}

// syncAll syncs each file; trouble with one is no trouble of another.
func syncAll(files map[*os.File]bool) map[*os.File]error {
	turns := make(chan struct{}, syncersOf)
	errs := map[*os.File]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for f := range files {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if err := f.Sync(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs[f] = err
			}
		})
	}
	wg.Wait()
	return errs
}
