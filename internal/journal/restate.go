package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"greenward/internal/git"
)

// Restated are the lines of two logs of the queue that stand when the two, which
// parted at some commit, are joined: those of entries that one side landed, ejected
// or withdrew and the other put back into the queue. The commit that joins them is
// the newest that names these entries, so it tells their verdict to whoever asks with
// git alone. Each line is indented, for it was decided where it stands already.
func Restated(ctx context.Context, repo *git.Repo, ours, theirs git.Hash) (string, error) {
	own, err := newest(ctx, repo, ours, theirs)
	if err != nil {
		return "", err
	}
	other, err := newest(ctx, repo, theirs, ours)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, entry := range slices.Sorted(maps.Keys(own)) {
		a, there := own[entry], other[entry]
		if there.line == nil || (a.state == Requeued) == (there.state == Requeued) {
			continue
		}
		if a.state == Requeued {
			a = there
		}
		fmt.Fprintf(&text, " %s\n", a.line)
	}
	return text.String(), nil
}

// lastLine is the newest line about an entry.
type lastLine struct {
	state string
	line  json.RawMessage
}

// newest is the newest line about each entry that one log has and another has not.
func newest(ctx context.Context, repo *git.Repo, log, without git.Hash) (map[string]lastLine, error) {
	hashes, err := repo.RevList(ctx, []git.Hash{log}, []git.Hash{without}, "--reverse", "--topo-order")
	if err != nil {
		return nil, fmt.Errorf("compare logs of the queue: %w", err)
	}
	last := map[string]lastLine{}
	for _, h := range hashes {
		c, err := repo.Commit(h)
		if err != nil {
			return nil, fmt.Errorf("compare logs of the queue: %w", err)
		}
		for _, line := range Lines(c) {
			d, err := ParseDecision(line)
			if err != nil {
				return nil, err
			}
			if d.Entry != "" {
				last[d.Entry] = lastLine{d.State, line}
			}
		}
	}
	return last, nil
}
