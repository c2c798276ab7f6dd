// Package gate says what a pull request still lacks before it may land: checks and
// reviews that the branch's rules demand.
//
// It owns the rules' meaning and no forge: what GitHub said comes in, what is
// missing goes out. Everything here is pure. Absence is never a pass.
package gate

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rules are what a branch demands, from wherever GitHub keeps it.
type Rules struct {
	Checks      []Check
	Reviews     int  // approvals by people who may write
	DropStale   bool // an approval of an older head does not count
	LastPusher  bool // whoever pushed last does not approve
	MergeQueue  bool // GitHub's own merge queue is demanded, and we may not pass it by
	Unread      []string
	BlockLabels []string
}

// Check is a required check.
type Check struct {
	Name string
	App  int64 // that must report it; 0: any
}

// Run is one check run or status on the head.
type Run struct {
	Name       string
	App        int64 // 0: a status
	ID         int64 // a later run has a greater one
	Conclusion string
	Done       bool
	Whole      string // of a skipped run: the conclusion of its suite
}

// Review is one review of the pull request.
type Review struct {
	By    int64
	ID    int64 // a later review has a greater one
	State string
	Head  string
	Write bool // its author may write
}

// Pull is what the gate looks at.
type Pull struct {
	Head    string
	Author  int64
	Labels  []string
	Runs    []Run
	Reviews []Review
	Since   time.Time // when it was approved, for what never starts

	// Building: it is being tested together with others on the newest main. What is asked
	// of its own head once more meanwhile, alone, says less than that and vetoes nothing.
	Building bool
}

// neverStarts is how long a required check may be absent before the text says so.
const neverStarts = 10 * time.Minute

// Missing lists what the pull request lacks, each as one sentence. Empty: it may land.
// names are shown as code, so that they are read as they are.
func Missing(r Rules, p Pull, now time.Time) []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if r.MergeQueue {
		add("A rule of the branch demands GitHub's own merge queue, so GitHub would refuse our push: let the App bypass that rule, or remove it.")
	}
	for _, label := range r.BlockLabels {
		if slices.Contains(p.Labels, label) {
			add("The label %s blocks it.", code(label))
		}
	}
	for _, c := range r.Checks {
		if why := c.lacks(p, now); why != "" && !p.Building {
			add("%s", why)
		}
	}
	have, against := count(r, p)
	if n := against; n > 0 {
		add("%s changes to be made.", plural(n, "reviewer asks for", "reviewers ask for"))
	}
	if have < r.Reviews {
		add("It has %s, and %d %s needed.", plural(have, "approval of somebody who may write", "approvals of people who may write"), r.Reviews, map[bool]string{true: "is", false: "are"}[r.Reviews == 1])
	}
	return list
}

// lacks says why a required check is not passed on the head, or nothing. Of runs
// of one App under one name the newest counts, never the best.
func (c Check) lacks(p Pull, now time.Time) string {
	newest := map[int64]Run{}
	for _, r := range p.Runs {
		if r.Name == c.Name && (c.App == 0 || r.App == c.App) && r.ID >= newest[r.App].ID {
			newest[r.App] = r
		}
	}
	if len(newest) == 0 {
		if !p.Since.IsZero() && now.Sub(p.Since) > neverStarts {
			return fmt.Sprintf("The required check %s has not started on this head for more than %d minutes: does its workflow run for pull requests to this branch?", code(c.Name), int(neverStarts.Minutes()))
		}
		return fmt.Sprintf("The required check %s has not started on this head.", code(c.Name))
	}
	// Runs of several Apps under one name: all of them must have passed.
	for _, r := range newest {
		if why := r.lacks(); why != "" {
			return fmt.Sprintf("The required check %s %s.", code(c.Name), why)
		}
	}
	return ""
}

func (r Run) lacks() string {
	switch {
	case !r.Done:
		return "is not finished"
	case r.Conclusion == "success":
		return ""
	case r.Conclusion == "skipped" && r.Whole == "success":
		return "" // its workflow ran, ended well and did not need it
	case r.Conclusion == "skipped":
		return "was skipped, and its workflow did not succeed"
	case r.Conclusion == "neutral":
		return "ended without an opinion"
	case r.Conclusion == "":
		return "has no conclusion"
	}
	return "ended as " + code(r.Conclusion)
}

// count weighs the newest opinion of each reviewer. A comment is no opinion; a
// dismissed review takes its author's opinion away.
func count(r Rules, p Pull) (approvals, against int) {
	newest := map[int64]Review{}
	for _, v := range p.Reviews {
		state := strings.ToUpper(v.State)
		if state != "APPROVED" && state != "CHANGES_REQUESTED" && state != "DISMISSED" || v.ID < newest[v.By].ID {
			continue
		}
		v.State = state
		newest[v.By] = v
	}
	for by, v := range newest {
		switch {
		case !v.Write || by == p.Author:
		case v.State == "CHANGES_REQUESTED" && r.Reviews > 0:
			against++
		case v.State == "APPROVED" && (!r.DropStale && !r.LastPusher || v.Head == p.Head):
			approvals++
		}
	}
	return approvals, against
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

func code(s string) string {
	return "`" + strings.Map(func(r rune) rune {
		if r == '`' || r < ' ' {
			return '\''
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")) + "`"
}
