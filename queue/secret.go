package queue

import (
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/queue/gate"
)

// Secret is a path at which a commit adds what looks like a secret to the gate; empty:
// nothing does.
func Secret(repo *git.Repo, commit git.Hash) (path string, err error) {
	found, err := (&gate.Gate{Repo: repo}).Secret(config.Gate{}, commit)
	if found == nil || err != nil {
		return "", err
	}
	return found.Path, nil
}
