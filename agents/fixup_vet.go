package agents

import (
	"context"
	"strings"

	"greenward/green/accept"
	"greenward/internal/git"
)

// vet says which rules a repair breaks, or "". The rules are those that green judges
// it by later; here the agent hears of them while it can do better. What is merely
// suspicious is for green.
func (r *repair) vet(ctx context.Context, tree git.Hash) (string, error) {
	files, err := accept.Between(ctx, r.ws.Repo(), r.base, tree)
	if err != nil {
		return "", err
	}
	broken, _ := accept.Patch{Files: files, Protected: r.in.Protected, Runs: r.in.Runs, MaxFiles: r.MaxFiles, MaxLines: r.MaxLines}.Refusals()
	r.refused = append(r.refused, broken...)
	var says []string
	for _, b := range broken[:min(len(broken), 5)] {
		says = append(says, b.String())
	}
	return strings.Join(says, "; "), nil
}
