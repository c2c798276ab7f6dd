package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/rs/zerolog"

	"greenward/internal/config"
	"greenward/internal/proc"
)

// bounded runs the command of a check within the check's limits: memory and
// processes of all that it starts together, by a control group, and the size of a
// file by the shell's own limit. A machine that cannot hold a limit says so, and
// the check runs without it: the verdict is the tree's, not the machine's.
func bounded(ctx context.Context, check config.Check, command proc.Command, run func(context.Context, proc.Command) (proc.Result, error)) (proc.Result, error) {
	b := check.Bounds
	if b.FileSize > 0 { // POSIX counts in 512 bytes
		command.Args = []string{"-c", "ulimit -f " + strconv.FormatInt((b.FileSize+511)/512, 10) + `; eval "$1"`, "sh", command.Args[1]}
	}
	if b.Memory == 0 && b.Processes == 0 {
		return run(ctx, command)
	}
	group, err := proc.NewGroup(proc.Limits{Memory: b.Memory, Processes: b.Processes})
	if err != nil && !errors.Is(err, proc.ErrNoGroups) {
		return proc.Result{}, fmt.Errorf("bound the check: %w", err)
	}
	for _, want := range []struct {
		what string
		on   bool
	}{{"memory", b.Memory > 0}, {"processes", b.Processes > 0}} {
		if want.on && !slices.Contains(group.Holds(), want.what) {
			zerolog.Ctx(ctx).Warn().Str("check", check.Name).Str("limit", want.what).Msg("limit not held here")
		}
	}
	command.Group = group
	ended, err := run(ctx, command)
	return ended, errors.Join(err, group.Close())
}
