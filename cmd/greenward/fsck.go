package main

import (
	"context"
	"crypto/rand"
	"flag"
	"io"

	"greenward/agents"
	"greenward/internal/proc"
	"greenward/workflows/fsck"
)

func fsckCommand() command {
	return command{
		name: "fsck", args: "[--repair]", summary: "prove that refs, trailers, claims, ledger and logs agree; exit 1 with findings",
		example: "greenward fsck\ngreenward -C /srv/hub.git fsck --repair --json",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			repair := fs.Bool("repair", false, "mend what can be mended without losing anything: locks of dead processes, landings cut short, claims on ended tasks, cursors ahead of main")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				return a.fsck(ctx, *repair)
			}
		},
	}
}

func (a *app) fsck(ctx context.Context, repair bool) error {
	e, err := a.engines(ctx, false)
	if err != nil {
		return err
	}
	self, err := proc.Self()
	if err != nil {
		return err
	}
	report, err := (&fsck.Fsck{
		Hub: e.hub, Main: e.main, Green: e.place.green, Lander: e.lander, Now: a.now, Repair: repair,
		Claims:  &agents.Claims{Repo: e.hub.Repo, Self: self, Now: a.now, Rand: rand.Reader},
		Trusted: append([]string{e.signer.Public()}, e.policy.Green.Signers...),
	}).Run(ctx)
	if err != nil {
		return err
	}
	if err := a.print(report, func(w io.Writer) {
		for _, f := range report.Findings {
			mended := ""
			if f.Repaired {
				mended = " (mended)"
			}
			line(w, "%-8s %s %s%s", f.Kind, f.Subject, f.Detail, mended)
		}
		line(w, "%d findings in %s", len(report.Findings), e.hub.Dir())
	}); err != nil {
		return err
	}
	if !report.OK {
		return errNo
	}
	return nil
}
