package workflows

import (
	"context"
	"errors"
	"fmt"

	"greenward/internal/git"
)

// Tell pushes the orders, and nothing else, where there is a remote: what a person
// says counts for other hubs at once.
func (x *Exchange) Tell(ctx context.Context) error {
	if !x.Hub.HasRemote() {
		return nil
	}
	for range giveTries {
		orders, err := x.tips(git.Control)
		if err != nil {
			return err
		}
		_, err = x.Hub.Publish(ctx, orders)
		if _, raced := errors.AsType[*git.RaceError](err); !raced {
			return err
		}
		if err := x.take(ctx); err != nil { // somebody else gave an order: both stand
			return err
		}
	}
	return fmt.Errorf("push orders to %q: %d races in a row", x.Hub.Upstream(), giveTries)
}
