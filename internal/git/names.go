package git

import (
	"fmt"
	"strconv"
	"strings"
)

// Refs of the public contract; docs/protocol.md says who writes them.
const (
	QueueLog Ref = "refs/greenward/log/queue"
	GreenLog Ref = "refs/greenward/log/green"
	Notes    Ref = "refs/notes/greenward"
	Control  Ref = "refs/greenward/control"

	QueuePrefix   = "refs/heads/queue/"
	ClaimPrefix   = "refs/greenward/claims/"
	PlannerPrefix = "refs/greenward/planners/"
	RescuePrefix  = "refs/greenward/rescue/"
	EjectedPrefix = "refs/greenward/ejected/"
	SeenPrefix    = "refs/greenward/seen/"
	RunLogPrefix  = "refs/greenward/log/run/"
)

// QueueRef is the branch of a waiting change. The name is one path component.
func QueueRef(name string) (Ref, error) {
	if strings.Contains(name, "/") {
		return "", fmt.Errorf("queue name %q: one path component is wanted, without a slash: push it under another name", name)
	}
	if strings.HasPrefix(name, "_") || strings.HasPrefix(name, "-") {
		return "", fmt.Errorf("queue name %q: it must not begin with %s: push it under another name", name, name[:1])
	}
	return ParseRef(QueuePrefix + name)
}

// ClaimRef is the ref that holds the claim on a task.
func ClaimRef(task string) (Ref, error) { return leaf(ClaimPrefix, task) }

// PlannerRef is the ref of a planner's scratchpad and cursor.
func PlannerRef(path string) (Ref, error) { return leaf(PlannerPrefix, path) }

// RunLog is the log of what was done about a run's health.
func RunLog(run string) (Ref, error) { return ParseRef(RunLogPrefix + run) }

// RescueRef is the n-th rescued work on a task. The commit is part of the name, so
// that two hubs that rescue work on one task never give one name to two commits.
func RescueRef(task string, n int, commit Hash) (Ref, error) {
	r, err := leaf(RescuePrefix, task)
	return r + Ref("/"+strconv.Itoa(n)+"-"+commit.Short()), err
}

// RescueNumber is the number in a rescue ref, which may have been made without the
// commit in its name; 0: none of ours.
func RescueNumber(ref Ref) int {
	leaf, _, _ := strings.Cut(string(ref[strings.LastIndexByte(string(ref), '/')+1:]), "-")
	n, err := strconv.Atoi(leaf)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// EjectedRef keeps the head of an ejected entry.
func EjectedRef(entry string) (Ref, error) { return ParseRef(EjectedPrefix + entry) }

// leaf appends the component that keeps a path and its children from colliding.
func leaf(prefix, path string) (Ref, error) {
	for part := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(part, "_") {
			return "", fmt.Errorf("%q: a component must not begin with _", path)
		}
	}
	return ParseRef(prefix + path + "/_")
}

// EntryID names a change in the queue: its branch and the first 12 digits of its head.
func EntryID(name string, head Hash) string { return name + "@" + head.Short() }

// IsEntry reports whether a text has the form of an entry.
func IsEntry(text string) bool {
	at := strings.LastIndexByte(text, '@')
	return at > 0 && len(text)-at-1 == 12 && strings.Trim(text[at+1:], "0123456789abcdef") == ""
}
