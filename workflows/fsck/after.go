package fsck

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"greenward/agents"
	"greenward/internal/git"
)

// KindAfter is an open task that comes after what never was a task: a name that was
// mistyped. It counts as ready, because what is not open counts as finished.
const KindAfter = "after"

// Strays lists, by open task, what it is to come after that never was a task or a
// slice on main.
func Strays(ctx context.Context, repo *git.Repo, main git.Hash, board agents.Board) (map[string][]string, error) {
	var paths []string
	for _, t := range board.Tasks {
		for _, id := range t.After {
			if !board.IsOpen(id) {
				paths = append(paths, agents.TaskPath(id), agents.GoalPath(id))
			}
		}
	}
	slices.Sort(paths)
	ever, err := repo.Ever(ctx, main, slices.Compact(paths))
	if err != nil {
		return nil, fmt.Errorf("look for what tasks come after: %w", err)
	}
	strays := map[string][]string{}
	for _, t := range board.Tasks {
		for _, id := range t.After {
			if !board.IsOpen(id) && !ever[agents.TaskPath(id)] && !ever[agents.GoalPath(id)] {
				strays[t.ID] = append(strays[t.ID], id)
			}
		}
	}
	return strays, nil
}

func (f *Fsck) after(ctx context.Context) error {
	main, err := f.Hub.Tip(f.Main)
	if err != nil || main.IsZero() {
		return err
	}
	board, err := agents.OpenTasks(f.Hub.Repo, main, "")
	if err != nil {
		return err
	}
	strays, err := Strays(ctx, f.Hub.Repo, main, board)
	if err != nil {
		return err
	}
	for _, t := range board.Tasks {
		if list := strays[t.ID]; len(list) > 0 {
			f.find(KindAfter, t.ID, "%s", Stray(list))
		}
	}
	return nil
}

// Stray says of a task that it comes after what never was one, and what to do.
func Stray(after []string) string {
	return "comes after " + strings.Join(after, ", ") + ", which never was a task on main, so it waits for nothing; name a task by its path without tasks/ and .md, in a new task file in place of this one"
}
