package bot

import (
	"context"

	"greenward/bot/forge"
)

// missing lists what a pull request lacks by the rules of its base branch, by
// bors.toml and by our own policy.
func (b *Bot) missing(ctx context.Context, c *client, number int, p *pull, building bool) ([]string, error) {
	return b.rules.Missing(ctx, c.Repo, forge.Pull{
		Number: number, Base: p.Base, Head: string(p.Head), Author: p.Author, Labels: p.Labels, Since: p.At,
		Workflows: c.may("workflows"), Building: building, Writes: c.writes,
	}, forge.Extra{
		Checks: b.carry.PRStatus, BlockLabels: b.carry.BlockLabels, Reviews: b.carry.Approvals, DropStale: b.carry.UpToDate, Checked: b.checks,
	}, b.cfg.Now())
}
