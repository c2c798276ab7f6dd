package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/verify"
)

// promotionLine is one promotion as `green log --json` prints it, one a line.
type promotionLine struct {
	Commit   git.Hash  `json:"commit"`
	At       time.Time `json:"at"`
	Snapshot git.Hash  `json:"snapshot"`
	Repair   string    `json:"repair"`
	By       *string   `json:"by"`       // null: the log does not know it
	Lane     *string   `json:"lane"`     // null: a promotion is of all lanes
	Evidence []string  `json:"evidence"` // keys of ledger lines

	Verdict  *verify.Verdict     `json:"verdict"` // of the snapshot; null: the log does not know it
	Culprits []green.Blamed      `json:"culprits"`
	Excluded []journal.Exclusion `json:"excluded"`
	Repairs  []string            `json:"repairs"`
}

func logCommand() command {
	return command{
		name: "green log", summary: "list promotions, newest first", example: "greenward green log\ngreenward green log --signers > allowed_signers",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			signers := fs.Bool("signers", false, "print an allowed signers file for git verify-commit instead")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				return a.greenLog(ctx, *signers)
			}
		},
	}
}

func (a *app) greenLog(ctx context.Context, signers bool) error {
	p, err := a.current(ctx)
	if err != nil {
		return err
	}
	tip, err := p.hub.Tip(p.green)
	if err != nil {
		return err
	}
	if signers {
		return a.greenSigners(p, tip)
	}
	if tip.IsZero() {
		a.note("greenward: no promotion yet; greenward green snapshot makes one")
		return nil
	}
	known, err := logged(p)
	if err != nil {
		return err
	}
	for c, err := range p.hub.History(tip, "") {
		if err != nil {
			return err
		}
		one, err := green.ReadPromotion(c)
		if err != nil {
			return nil // green's history from before its first promotion
		}
		l := promotionOf(c, one, known[c.Hash])
		if err := a.print(l, func(w io.Writer) {
			line(w, "%s  %s  snapshot %s  repair %s", l.Commit.Short(), l.At.Format(time.DateTime), l.Snapshot.Short(), l.Repair)
		}); err != nil {
			return err
		}
	}
	return nil
}

// logged is what green's log says of promotions, by the green that they made.
func logged(p *place) (map[git.Hash]green.Line, error) {
	lines, err := green.ReadLog(p.hub.Repo)
	known := map[git.Hash]green.Line{}
	for _, l := range lines {
		if l.Green != nil && (l.State == journal.Promoted || l.State == journal.RolledBack) {
			known[*l.Green] = l
		}
	}
	return known, err
}

// promotionOf puts together what a promotion states and what the log says of it; a zero
// Line: it does not know it.
func promotionOf(c git.Commit, p green.Promotion, l green.Line) promotionLine {
	line := promotionLine{
		Commit: c.Hash, At: c.Committer.When.UTC(), Snapshot: p.Snapshot, Repair: p.Repair, By: absent(l.By), Lane: l.Lane, Evidence: append([]string{}, l.Evidence...),
		Culprits: append([]green.Blamed{}, l.Culprits...), Excluded: append([]journal.Exclusion{}, p.Excludes...), Repairs: append([]string{}, l.Repairs...),
	}
	if l.Verdict != "" {
		line.Verdict = &l.Verdict
	}
	return line
}

// greenSigners prints whom green's history trusts; before there is one, this hub.
func (a *app) greenSigners(p *place, tip git.Hash) error {
	if !tip.IsZero() {
		text, err := green.Signers(p.hub.Repo, tip)
		fmt.Fprint(a.stdout, text)
		return err
	}
	key, err := p.hub.Key()
	if err != nil {
		return err
	}
	fmt.Fprint(a.stdout, allowedSigners(key, p.policy.Green.Signers))
	return nil
}

// allowedSigners lets git check promotions by this hub and by those whom the
// policy lists.
func allowedSigners(key git.Signer, listed []string) string {
	return git.AllowedSigners("greenward@localhost", key.Public()) + strings.Join(append(listed, ""), "\n")
}
