package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"greenward/internal/git"
)

// Append writes an empty-tree commit on the log's tip that carries the lines,
// one JSON object each, and returns the move of the ref that makes it true. The
// caller makes that move inside its own transaction; a lost race there means that
// another decision came first.
func Append(repo *git.Repo, ref git.Ref, subject string, lines []any, by git.Identity) (git.RefUpdate, error) {
	old, err := repo.Resolve(ref)
	if err != nil && !errors.Is(err, git.ErrNotFound) {
		return git.RefUpdate{}, fmt.Errorf("read %s: %w", ref, err)
	}
	return appendTo(repo, old, git.RefUpdate{Ref: ref, Old: old}, logMessage{subject, lines, by, nil})
}

// AppendTo is Append to a log of which the caller read, or made, the tip: log.Old.
func AppendTo(repo *git.Repo, log git.RefUpdate, subject string, lines []any, by git.Identity) (git.RefUpdate, error) {
	return appendTo(repo, log.Old, log, logMessage{subject, lines, by, nil})
}

// logMessage is what a log commit says, by whom, and who signs it.
type logMessage struct {
	subject string
	lines   []any
	by      git.Identity
	signer  git.Signer
}

func appendTo(repo *git.Repo, tip git.Hash, move git.RefUpdate, m logMessage) (git.RefUpdate, error) {
	if len(m.lines) == 0 {
		return git.RefUpdate{}, fmt.Errorf("append to %s: no lines", move.Ref)
	}
	var text strings.Builder
	text.WriteString(strings.Join(strings.Fields(m.subject), " "))
	text.WriteString("\n\n")
	for _, line := range m.lines {
		data, err := marshal(line)
		if err != nil {
			return git.RefUpdate{}, fmt.Errorf("encode a line of %s: %w", move.Ref, err)
		}
		text.Write(data)
		text.WriteByte('\n')
	}
	tree, err := repo.WriteTree(nil)
	if err != nil {
		return git.RefUpdate{}, fmt.Errorf("write the empty tree: %w", err)
	}
	in := git.CommitInput{Tree: tree, Author: m.by, Committer: m.by, Message: text.String(), Signer: m.signer}
	if !tip.IsZero() {
		in.Parents = []git.Hash{tip}
	}
	move.New, err = repo.WriteCommit(in)
	if err != nil {
		return git.RefUpdate{}, fmt.Errorf("write a commit for %s: %w", move.Ref, err)
	}
	return move, nil
}

// Record is one line of a log.
type Record struct {
	Commit git.Hash  // that holds all up to this line: where to read on
	At     time.Time // the commit's time
	Line   json.RawMessage
}

// Read yields the lines of a log that came after the commit since, oldest
// first; with since empty, or no longer part of the log, all of them. A log
// that does not exist is empty. Lines of a log that was joined stand among its own
// by time. Lines that are not JSON objects are skipped: a
// newer greenward may write what this one does not know.
func Read(repo *git.Repo, ref git.Ref, since git.Hash) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		steps, err := woven(repo, ref, since)
		if err != nil {
			yield(Record{}, err)
			return
		}
		for _, s := range steps {
			for _, line := range Lines(s.Commit) {
				if !yield(Record{Commit: s.upTo, At: s.Committer.When, Line: line}, nil) {
					return
				}
			}
		}
	}
}

// Lines are the JSON objects that a log commit carries.
func Lines(c git.Commit) []json.RawMessage {
	var lines []json.RawMessage
	for line := range strings.Lines(c.Message) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "{") && json.Valid([]byte(line)) {
			lines = append(lines, json.RawMessage(line))
		}
	}
	return lines
}

// newer lists the commits of a log's own line after since, oldest first, and
// whether since was met.
func newer(repo *git.Repo, ref git.Ref, since git.Hash) ([]git.Commit, bool, error) {
	tip, err := repo.Resolve(ref)
	if errors.Is(err, git.ErrNotFound) {
		return nil, since.IsZero(), nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", ref, err)
	}
	var commits []git.Commit
	met := since.IsZero()
	for c, err := range repo.History(tip, "") {
		if err != nil {
			return nil, false, fmt.Errorf("read the history of %s: %w", ref, err)
		}
		if c.Hash == since {
			met = true
			break
		}
		commits = append(commits, c)
	}
	slices.Reverse(commits)
	return commits, met, nil
}

// ReadDecisions returns the whole log of the queue, oldest first, without what a
// joined log of another hub says.
func ReadDecisions(repo *git.Repo) ([]Decision, error) {
	q, err := LoadQueue(repo)
	if err != nil {
		return nil, err
	}
	return slices.Clone(q.All()), nil
}

// ReadPromotions returns the whole log of green, oldest first.
func ReadPromotions(repo *git.Repo) ([]Promotion, error) {
	return readAll[Promotion](repo, git.GreenLog)
}

// ParseDecision reads one line of the queue's log.
func ParseDecision(line json.RawMessage) (Decision, error) {
	var d Decision
	if err := json.Unmarshal(line, &d); err != nil {
		return d, fmt.Errorf("read a line of the queue's log: %w", err)
	}
	return d, nil
}

func readAll[T any](repo *git.Repo, ref git.Ref) ([]T, error) {
	var all []T
	for r, err := range Read(repo, ref, "") {
		if err != nil {
			return nil, err
		}
		var v T
		if err := json.Unmarshal(r.Line, &v); err != nil {
			return nil, fmt.Errorf("read a line of %s in %s: %w", ref, r.Commit.Short(), err)
		}
		all = append(all, v)
	}
	return all, nil
}

// lineBuffer collects what an encoder writes, without its final newline.
type lineBuffer struct{ bytes.Buffer }

func (b *lineBuffer) line() []byte { return bytes.TrimRight(b.Bytes(), "\n") }
