package journal

import (
	"encoding/json"
	"fmt"
	"slices"

	"greenward/internal/git"
)

// QueueLog is the queue's log, indexed. It is a cache of git: Refresh brings it
// up to date. Where the log of another hub was joined, its decisions are found like
// our own from there on; All and Last are of this log's own line alone. Not safe
// for concurrent use.
type QueueLog struct {
	repo     *git.Repo
	tip      git.Hash
	read     map[git.Hash]bool // commits, of any line
	joined   bool
	own      []Decision // where another line was joined; else all are
	all      []Decision
	byEntry  map[string]int
	byHead   map[git.Hash][]int
	byLanded map[git.Hash]int
	last     []Decision
}

// LoadQueue reads the queue's log.
func LoadQueue(repo *git.Repo) (*QueueLog, error) {
	q := &QueueLog{repo: repo}
	q.reset()
	return q, q.Refresh()
}

func (q *QueueLog) reset() {
	q.tip, q.own, q.all, q.last, q.read, q.joined = "", nil, nil, nil, map[git.Hash]bool{}, false
	q.byEntry = map[string]int{}
	q.byHead = map[git.Hash][]int{}
	q.byLanded = map[git.Hash]int{}
}

// Refresh reads what was appended since. When the log no longer contains what
// was read before, it is read again from its beginning.
func (q *QueueLog) Refresh() error {
	commits, met, err := newer(q.repo, git.QueueLog, q.tip)
	if err != nil {
		return err
	}
	if !met {
		q.reset()
	}
	for _, c := range commits {
		q.read[c.Hash] = true
	}
	for _, c := range commits {
		batch, err := q.take(c)
		if err != nil {
			return err
		}
		if q.joined {
			q.own = append(q.own, batch...)
		}
		q.tip, q.last = c.Hash, batch
	}
	return nil
}

// join takes up the log of another hub, which ends in tip.
func (q *QueueLog) join(tip git.Hash) error {
	if !q.joined {
		q.joined, q.own = true, slices.Clone(q.all)
	}
	var commits []git.Commit
	for c, err := range q.repo.History(tip, "") {
		if err != nil {
			return fmt.Errorf("read the log of another hub: %w", err)
		}
		if q.read[c.Hash] {
			break
		}
		q.read[c.Hash] = true
		commits = append(commits, c)
	}
	for _, c := range slices.Backward(commits) {
		if _, err := q.take(c); err != nil {
			return err
		}
	}
	return nil
}

// take adds the decisions of one commit, after those of the logs that it joins, and
// gives its own.
func (q *QueueLog) take(c git.Commit) ([]Decision, error) {
	for _, other := range c.Parents[min(1, len(c.Parents)):] {
		if err := q.join(other); err != nil {
			return nil, err
		}
	}
	var batch []Decision
	for _, line := range Lines(c) {
		var d Decision
		if err := json.Unmarshal(line, &d); err != nil {
			return nil, fmt.Errorf("read a line of %s in %s: %w", git.QueueLog, c.Hash.Short(), err)
		}
		batch = append(batch, d)
	}
	for _, d := range batch {
		q.add(d)
	}
	return batch, nil
}

func (q *QueueLog) add(d Decision) {
	i := len(q.all)
	q.all = append(q.all, d)
	q.byEntry[d.Entry] = i
	if !d.Head.IsZero() {
		q.byHead[d.Head] = append(q.byHead[d.Head], i)
	}
	if d.Landed != nil {
		q.byLanded[*d.Landed] = i
	}
}

// Tip is the log commit that was read last; empty when there is no log.
func (q *QueueLog) Tip() git.Hash { return q.tip }

// All lists every decision of this log's own line, oldest first. The slice must not
// be changed.
func (q *QueueLog) All() []Decision {
	if q.joined {
		return q.own
	}
	return q.all
}

// Last lists the decisions of the newest transaction.
func (q *QueueLog) Last() []Decision { return q.last }

// Find returns the newest decision about an entry.
func (q *QueueLog) Find(entry string) (Decision, bool) {
	i, ok := q.byEntry[entry]
	if !ok {
		return Decision{}, false
	}
	return q.all[i], true
}

// ByHead lists the decisions about a head, oldest first, whatever name it was
// submitted under.
func (q *QueueLog) ByHead(head git.Hash) []Decision {
	var list []Decision
	for _, i := range q.byHead[head] {
		list = append(list, q.all[i])
	}
	return list
}

// ByLanded returns the decision that made the given commit the tip of main.
func (q *QueueLog) ByLanded(commit git.Hash) (Decision, bool) {
	i, ok := q.byLanded[commit]
	if !ok {
		return Decision{}, false
	}
	return q.all[i], true
}
