package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"greenward/agents"
	"greenward/agents/cache"
	"greenward/internal/git"
	"greenward/internal/proc"
)

// warmPause is the least time between two builds that warm the caches: each costs a run
// of the checks.
const warmPause = 10 * time.Minute

// warming keeps layered caches warm until the function that it gives is called: whenever
// main has moved, it builds main once, by the required checks, in a cell of its own.
func (c *crew) warming(ctx context.Context) (stop func()) {
	if c.shelter.shelf == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.keepWarm(ctx)
	}()
	return func() { cancel(); <-ended }
}

func (c *crew) keepWarm(ctx context.Context) {
	var last git.Hash
	for {
		heard := c.moved.Heard()
		tip, err := c.hub.Tip(c.main)
		if err == nil && tip != last && c.workspaces.Full() == nil {
			if err = c.warm(ctx, tip); err == nil {
				last = tip
			}
		}
		if err != nil && ctx.Err() == nil { // agents build all the same, and take longer
			zerolog.Ctx(ctx).Warn().Err(err).Msg("caches not warmed")
		}
		pause := time.NewTimer(warmPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-heard:
		}
	}
}

// warm runs the required checks at a commit of main in a new workspace. How they end is
// no verdict.
func (c *crew) warm(ctx context.Context, at git.Hash) error {
	return c.shelter.shelf.Warm(func(loans []cache.Loan) (err error) {
		places := *c.workspaces
		places.Shelter = c.shelter.lend(loans)
		name := c.prefix + "warmer"
		ws, err := places.Open(ctx, agents.WorkspaceInput{Run: "caches", Agent: name, Task: "caches/" + name, Base: at})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ws.Remove()) }()
		for _, check := range c.policy.Required() {
			if check.Run == "" {
				continue
			}
			_, err := ws.Run(ctx, proc.Command{Name: "sh", Args: []string{"-c", check.Run}, Dir: ws.Dir(), Env: c.env, Timeout: check.Timeout})
			if err != nil {
				return fmt.Errorf("build for the caches: %s: %w", check.Name, err)
			}
		}
		return ctx.Err() // half a build is none
	})
}
