package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"greenward/green/accept"
	"greenward/internal/git"
)

// maxFlags bounds how many findings of one kind a hand-off carries.
const maxFlags = 8

// attest looks at what a report says and what the files show. What may be a slip
// is sent back once; what remains is flagged, for the planner to judge.
func (a *assignment) attest(ctx context.Context, r Report) (refusal string, err error) {
	a.flags = nil
	for _, name := range a.held {
		a.flag("submodule %q is left as it was", name)
	}
	paths, err := a.ws.Repo().ChangedPaths(ctx, a.ws.Base, a.tree)
	if err != nil {
		return "", err
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return strings.HasPrefix(p, "tasks/") })
	if err := a.stat(ctx, paths); err != nil {
		return "", err
	}
	a.unchanged = len(paths) == 0
	if len(paths) == 0 && r.Outcome == Done && a.round == 0 {
		if a.firstTime("nothing") && len(r.Notes)+len(r.Findings) == 0 {
			return "not handed off yet: no file is changed, so nothing of this task is done here. Do it; or, if you found it done already, hand off again and say in `notes` where you saw that.", nil
		}
		a.flag("no file is changed")
	}
	if out := a.outside(paths); len(out) > 0 {
		if a.firstTime("outside") && len(r.Deviations) == 0 {
			return fmt.Sprintf("not handed off yet: the task is to stay within %s, and you changed %s. Take that back, or hand off again and say in `deviations` why it has to be.", quoteAll(a.task.Paths), quoteAll(out)), nil
		}
		a.flag("outside of the task's paths: %s", quoteAll(out))
	}
	if err := a.weakened(paths); err != nil {
		return "", err
	}
	if r.Ran != nil && *r.Ran == 0 && len(a.measured) == 0 && claimsARun(r) {
		if a.firstTime("claim") {
			return "not handed off yet: your report says that something passes, but no command was run since your last change. Run it, or leave the claim out, then hand off again.", nil
		}
		a.flag("the report says that something passes; no command was run after the last change")
	}
	return "", nil
}

// holdLinks puts submodules of the last look's tree back to where they were, for what
// was committed in one nobody else has, and refuses repositories that are new.
func (a *assignment) holdLinks(ctx context.Context) (refusal string, err error) {
	links, err := a.ws.Repo().HoldLinks(ctx, a.ws.Base, a.tree)
	if err != nil {
		return "", err
	}
	a.tree, a.held = links.Tree, links.Before
	if len(links.New) > 0 {
		return fmt.Sprintf("not handed off: %s is a git repository of its own, so that its files are not in your change. Remove its .git, or the whole of it.", quoteAll(links.New)), a.ws.Forget(ctx, links.New)
	}
	if len(a.held) > 0 && a.firstTime("submodule") {
		return fmt.Sprintf("not handed off yet: submodules are read-only here, and you changed %s. Hand off again to leave it as it was on main, or as blocked if the task cannot be done so.", quoteAll(a.held)), nil
	}
	return "", nil
}

// firstTime reports whether something is seen for the first time in this task.
func (a *assignment) firstTime(what string) bool {
	if a.said == nil {
		a.said = map[string]bool{}
	}
	first := !a.said[what]
	a.said[what] = true
	return first
}

func (a *assignment) flag(format string, args ...any) {
	a.flags = append(a.flags, fmt.Sprintf(format, args...))
}

// outside is what was changed although the task names other paths.
func (a *assignment) outside(paths []string) []string {
	if len(a.task.Paths) == 0 {
		return nil
	}
	var out []string
	for _, name := range paths {
		if !a.task.Names(name) {
			out = append(out, name)
		}
	}
	return out
}

// weakened flags tests that were deleted, skipped or assert less than before.
func (a *assignment) weakened(paths []string) error {
	deleted := 0
	for _, name := range paths {
		before, after, err := a.versions(name)
		if err != nil {
			return err
		}
		if after == nil {
			if accept.IsTest(name) {
				deleted++
				a.flag("test file %q is deleted", name)
			}
			continue
		}
		for _, w := range accept.Weakened(name, before, after) {
			a.flag("%q %s (%d → %d)", name, w.Says, w.Was, w.Is)
		}
	}
	if more := len(a.flags) - maxFlags; more > 0 {
		a.flags = append(a.flags[:maxFlags], fmt.Sprintf("and %d more of that kind", more))
	}
	return nil
}

// maxAttested bounds the files that are looked into.
const maxAttested = 1 << 20

// versions is a file before and after the work; nil where it is not there. Files
// that are no text of a usual length are empty: nothing is to be seen in them.
func (a *assignment) versions(name string) (before, after []byte, err error) {
	repo := a.ws.Repo()
	for _, one := range []struct {
		at   git.Hash
		into *[]byte
	}{{a.ws.Base, &before}, {a.tree, &after}} {
		data, err := repo.File(one.at, name)
		if errors.Is(err, git.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if len(data) > maxAttested {
			data = nil
		}
		*one.into = append([]byte{}, data...)
	}
	return before, after, nil
}

// claimsARun reports whether a report says that tests or the like pass.
func claimsARun(r Report) bool {
	claim := regexp.MustCompile(`(?i)\b(tests?|checks?|suite|build|lint|vet|everything|all)\b[^.\n]{0,40}\b(pass(es|ed|ing)?|green|succeed(s|ed)?|compiles|clean|ok)\b`)
	return slices.ContainsFunc(slices.Concat([]string{r.Summary, r.Details}, r.Notes, r.Findings), claim.MatchString)
}

// stat counts the change.
func (a *assignment) stat(ctx context.Context, paths []string) error {
	patch, err := a.ws.Repo().Diff(ctx, a.ws.Base, a.tree)
	if err != nil {
		return err
	}
	var in, out int
	for line := range bytes.SplitSeq(patch, []byte("\n")) {
		switch {
		case bytes.HasPrefix(line, []byte("+++ ")), bytes.HasPrefix(line, []byte("--- ")):
		case bytes.HasPrefix(line, []byte("+")):
			in++
		case bytes.HasPrefix(line, []byte("-")):
			out++
		}
	}
	a.size = fmt.Sprintf("%d files +%d -%d", len(paths), in, out)
	return nil
}

// cost is what the hand-off took, as the harness counted it.
func (a *assignment) cost() string {
	if a.session == nil {
		return "" // given up before anybody worked on it
	}
	parts := []string{}
	if a.size != "" {
		parts = append(parts, a.size)
	}
	if spent := a.session.Spent(); spent.Total() > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", spent.Total()))
	}
	return strings.Join(append(parts, a.Now().Sub(a.began).Round(time.Second).String()), ", ")
}
