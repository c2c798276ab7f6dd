package git

import (
	"context"
	"fmt"
	"strings"
)

// RawCommit is a commit of a first-parent history and what it changed there.
type RawCommit struct {
	Hash    Hash
	Parents []Hash
	Subject string
	Changes []RawChange // against the first parent, without looking for renames
}

// RawChange is one path that a commit changed. A side that is not there has a
// zero Hash.
type RawChange struct {
	Path     string
	Old, New Hash
}

// RawLog lists the first-parent history of to without that of from (zero: all),
// newest first, as git itself compares the trees.
func (r *Repo) RawLog(ctx context.Context, from, to Hash) ([]RawCommit, error) {
	args := []string{"log", "--first-parent", "-m", "--raw", "--no-abbrev", "--no-renames", "-z", "--format=%x01%H%x00%P%x00%s", string(to)}
	if !from.IsZero() {
		args = append(args, "^"+string(from))
	}
	out, err := r.git(ctx, append(args, "--")...)
	if err != nil {
		return nil, fmt.Errorf("read the history of %s: %w", to.Short(), err)
	}
	var all []RawCommit
	tokens := strings.Split(string(out), "\x00")
	for i := 0; i < len(tokens); i++ {
		token := strings.TrimLeft(tokens[i], "\n")
		hash, begins := strings.CutPrefix(token, "\x01")
		switch {
		case begins && i+2 < len(tokens):
			all = append(all, RawCommit{Hash: Hash(hash), Parents: hashes([]byte(tokens[i+1])), Subject: tokens[i+2]})
			i += 2
		case strings.HasPrefix(token, ":") && i+1 < len(tokens) && len(all) > 0:
			fields := strings.Fields(token)
			if len(fields) != 5 {
				return nil, fmt.Errorf("read the history of %s: git says %q of a path", to.Short(), token)
			}
			last := &all[len(all)-1]
			last.Changes = append(last.Changes, RawChange{Path: tokens[i+1], Old: present(fields[2]), New: present(fields[3])})
			i++
		}
	}
	return all, nil
}

// present is the id of an object, or the zero Hash for git's id of none.
func present(id string) Hash {
	if strings.Trim(id, "0") == "" {
		return ""
	}
	return Hash(id)
}
