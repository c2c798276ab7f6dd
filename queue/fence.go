package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// claim is a lease that a landing ends.
type claim struct {
	task string
	id   string
	move git.RefUpdate // deletes the ref from the value that was read
}

// fence lets a hand-off land only while its task is open and its claim is the
// one that is held. A change without Task: passes, unless it says Handoff:. A hand-off that landed before and
// was put back by no fault of its own ended its claim then: it needs none, while
// nobody else has one.
func (l *Lander) fence(entry string, t git.Trailers, tip git.Hash) (claim, *Found, error) {
	tasks, ids := distinct(t.All("Task")), distinct(t.All("Claim"))
	invalid := func(format string, args ...any) (claim, *Found, error) {
		return claim{}, &Found{Reason: journal.ReasonInvalid, Detail: fmt.Sprintf(format, args...)}, nil
	}
	if len(tasks) == 0 {
		if said, is := t.Get("Handoff"); is { // what reads hand-offs could never make sense of it
			return invalid("Handoff: %s ends no task; name it by Task: and Claim:, or leave Handoff: out", said)
		}
		return claim{}, nil, nil
	}
	if len(tasks) > 1 {
		return invalid("the change names %d tasks (%s); one change ends one task", len(tasks), strings.Join(tasks, ", "))
	}
	task := tasks[0]
	ref, err := git.ClaimRef(task)
	if err != nil || strings.HasPrefix(task, "/") {
		return invalid("Task: %q is not the name of a task", task)
	}
	if len(ids) != 1 || !isClaim(ids[0]) {
		return invalid("the hand-off of %s wants one Claim: of 12 hexadecimal digits, and has %q", task, ids)
	}
	if said := distinct(t.All("Handoff")); len(said) > 1 || len(said) == 1 && !slices.Contains(outcomes(), said[0]) {
		return invalid("the hand-off of %s says Handoff: %s; it is one of %s", task, strings.Join(said, ", "), strings.Join(outcomes(), ", "))
	}
	superseded := func(detail string) (claim, *Found, error) {
		return claim{}, &Found{Reason: journal.ReasonSuperseded, Task: task, Detail: detail, Paths: []string{}}, nil
	}
	file, err := taskFile(l.Hub.Repo, tip, task)
	if err != nil {
		return claim{}, nil, err
	}
	if file == "" {
		return superseded(fmt.Sprintf("task %s is not open on main any more", task))
	}
	held, id, err := heldClaim(l.Hub.Repo, ref)
	if err != nil {
		return claim{}, nil, fmt.Errorf("read the claim on %s: %w", task, err)
	}
	if d, ok := l.log.Find(entry); held.IsZero() && ok && d.State == journal.Requeued {
		return claim{task: task}, nil, nil
	}
	if held.IsZero() {
		return superseded(fmt.Sprintf("nobody holds the claim on %s", task))
	}
	if id != ids[0] {
		return superseded(fmt.Sprintf("the claim on %s is held as %q by now, not as %s", task, id, ids[0]))
	}
	return claim{task: task, id: id, move: git.RefUpdate{Ref: ref, Old: held}}, nil, nil
}

// heldClaim is the commit that a claim ref holds and the claim it names; zero
// where nobody holds one.
func heldClaim(repo *git.Repo, ref git.Ref) (held git.Hash, id string, err error) {
	held, err = repo.Tip(ref)
	if err != nil || held.IsZero() {
		return "", "", err
	}
	c, err := repo.Commit(held)
	if err != nil {
		return "", "", err
	}
	id, _ = c.Trailers().Get("Claim")
	return held, id, nil
}

// taskFile is the path of an open task, or empty.
func taskFile(repo *git.Repo, treeish git.Hash, task string) (string, error) {
	for _, path := range []string{"tasks/" + task + ".md", "tasks/" + task + "/GOAL.md"} {
		e, err := repo.Lookup(treeish, path)
		if err == nil && e.Mode != git.ModeTree {
			return path, nil
		}
		if err != nil && !errors.Is(err, git.ErrNotFound) {
			return "", fmt.Errorf("look for task %s: %w", task, err)
		}
	}
	return "", nil
}

// outcomes is how a task can end.
func outcomes() []string { return []string{"done", "partial", "blocked", "failed"} }

func isClaim(id string) bool {
	return len(id) == 12 && strings.Trim(id, "0123456789abcdef") == ""
}

func distinct(values []string) []string {
	values = slices.Clone(values)
	slices.Sort(values)
	return slices.Compact(values)
}
