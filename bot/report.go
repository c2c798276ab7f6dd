package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-github/v66/github"

	"greenward/internal/git"
)

// checkName is the check run's name on a pull request's head.
const checkName = "greenward"

// report says on GitHub what became of a request: one comment, one check run.
func (b *Bot) report(ctx context.Context, c *client, number int, p *pull, out Outcome) error {
	if !p.Entry.IsZero() {
		v := verdictOf(queueName(number), p, out)
		if d := digest(string(p.Entry), v.status, v.conclusion, v.title, v.summary); d != p.Checked {
			if err := b.check(ctx, c, p.Entry, v); err != nil {
				return fmt.Errorf("write the check run: %w", err)
			}
			p.Checked = d
		}
	}
	text := commentText(queueName(number), p, out)
	if d := digest(text); d != p.Said {
		if err := b.say(ctx, c, number, text); err != nil {
			return err
		}
		p.Said = d
	}
	return nil
}

// verdict is a check run's contents.
type verdict struct{ entry, status, conclusion, title, summary string }

func verdictOf(name string, p *pull, out Outcome) verdict {
	v := verdict{entry: git.EntryID(name, p.Entry), status: "completed", summary: describe(p, out)}
	switch out.State {
	case stateLanded:
		v.conclusion, v.title = "success", "Landed as "+out.Landed.Short()
	case stateEjected:
		v.conclusion, v.title = "failure", "Ejected: "+cut(Clean(out.Reason), 100)
	case stateWithdrawn:
		v.conclusion, v.title = "cancelled", "Withdrawn"
	case stateBuilding:
		v.status, v.title = "in_progress", "Its checks run"
	default:
		v.status, v.title = "queued", "Waiting to land"
	}
	return v
}

// describe is the outcome in full, for the check run and the comment.
func describe(p *pull, out Outcome) string {
	var s strings.Builder
	switch out.State {
	case stateLanded:
		fmt.Fprintf(&s, "`%s` landed as %s.", p.Entry.Short(), out.Landed)
	case stateEjected:
		fmt.Fprintf(&s, "`%s` was ejected: %s. Mend it, push, and ask again.", p.Entry.Short(), code(out.Reason))
	case stateWithdrawn:
		s.WriteString("`" + p.Entry.Short() + "` was withdrawn. " + out.Detail)
		return s.String()
	case stateBuilding:
		fmt.Fprintf(&s, "`%s` is being checked.", p.Entry.Short())
	default:
		fmt.Fprintf(&s, "`%s` waits in the queue, approved by %s.", p.Entry.Short(), code(p.By))
	}
	if out.With != "" {
		s.WriteString("\n\nIt met " + code(out.With) + ".")
	}
	if len(out.Paths) > 0 {
		s.WriteString("\n\n" + fenced(strings.Join(out.Paths, "\n")))
	}
	if out.Detail != "" {
		s.WriteString("\n\n" + fenced(out.Detail))
	}
	return s.String()
}

func commentText(name string, p *pull, out Outcome) string {
	var parts []string
	if !p.Entry.IsZero() {
		parts = append(parts, describe(p, out))
	}
	if p.Note != "" {
		parts = append(parts, p.Note)
	}
	if !p.Entry.IsZero() {
		parts = append(parts, "Entry `"+git.EntryID(name, p.Entry)+"`.")
	}
	return strings.Join(parts, "\n\n")
}

// say keeps the one comment of an issue or pull request. It carries its key, is
// looked up before it is written, and is edited only where the text differs.
func (b *Bot) say(ctx context.Context, c *client, number int, text string) error {
	key := fmt.Sprintf("comment/%d", number)
	mark := fmt.Sprintf("<!-- greenward:comment/%s/%s/%d -->", c.owner, c.name, number)
	body := cut(text, maxText) + "\n" + mark
	id, err := b.known(key)
	if err != nil {
		return err
	}
	if id == 0 {
		comments, _, err := listing(func(o github.ListOptions) ([]*github.IssueComment, *github.Response, error) {
			return c.Issues.ListComments(ctx, c.owner, c.name, number, &github.IssueListCommentsOptions{ListOptions: o})
		})
		if err != nil {
			return fmt.Errorf("look the comment up: %w", err)
		}
		for _, found := range comments {
			if c.self(found.GetUser()) && strings.HasSuffix(strings.TrimSpace(found.GetBody()), mark) {
				if id = found.GetID(); found.GetBody() == body {
					return b.effects.Outcome(key, id)
				}
				break
			}
		}
	}
	if id != 0 {
		return b.amend(ctx, key, id, func() (*github.Response, error) {
			_, resp, err := c.Issues.EditComment(ctx, c.owner, c.name, id, &github.IssueComment{Body: &body})
			return resp, err
		})
	}
	return b.create(ctx, key, func() (int64, error) {
		made, _, err := c.Issues.CreateComment(ctx, c.owner, c.name, number, &github.IssueComment{Body: &body})
		return made.GetID(), err
	})
}

// check keeps the one check run on a head; with a token, which GitHub gives no
// check runs, a commit status.
func (b *Bot) check(ctx context.Context, c *client, head git.Hash, v verdict) error {
	if !c.asApp {
		state := map[string]string{"success": "success", "failure": "failure", "cancelled": "error"}[v.conclusion]
		if state == "" {
			state = "pending"
		}
		return b.write(ctx, func() error {
			_, _, err := c.Repositories.CreateStatus(ctx, c.owner, c.name, string(head),
				&github.RepoStatus{State: &state, Context: new(checkName), Description: new(cut(v.title, 120))})
			return err
		})
	}
	var conclusion *string
	if v.conclusion != "" {
		conclusion = &v.conclusion
	}
	output := &github.CheckRunOutput{Title: &v.title, Summary: new(cut(v.summary, maxText))}
	key := "check/" + string(head)
	id, err := b.known(key)
	if err != nil {
		return err
	}
	if id == 0 {
		runs, _, err := c.Checks.ListCheckRunsForRef(ctx, c.owner, c.name, string(head), &github.ListCheckRunsOptions{CheckName: new(checkName), AppID: &b.cfg.App})
		if err != nil {
			return fmt.Errorf("look it up: %w", err)
		}
		for _, r := range runs.CheckRuns {
			if r.GetExternalID() == v.entry && r.GetApp().GetID() == b.cfg.App {
				id = max(id, r.GetID())
			}
		}
	}
	if id != 0 {
		return b.amend(ctx, key, id, func() (*github.Response, error) {
			_, resp, err := c.Checks.UpdateCheckRun(ctx, c.owner, c.name, id, github.UpdateCheckRunOptions{
				Name: checkName, ExternalID: &v.entry, Status: &v.status, Conclusion: conclusion, Output: output,
			})
			return resp, err
		})
	}
	return b.create(ctx, key, func() (int64, error) {
		made, _, err := c.Checks.CreateCheckRun(ctx, c.owner, c.name, github.CreateCheckRunOptions{
			Name: checkName, HeadSHA: string(head), ExternalID: &v.entry, Status: &v.status, Conclusion: conclusion, Output: output,
		})
		return made.GetID(), err
	})
}

// known is the id that an earlier write got, or 0.
func (b *Bot) known(key string) (int64, error) {
	data, ok := b.effects.Find(key)
	if !ok {
		return 0, nil
	}
	var id int64
	if err := json.Unmarshal(data, &id); err != nil {
		return 0, fmt.Errorf("read the outcome of %q: %w", key, err)
	}
	return id, nil
}

// create makes something that a lost answer must not make twice: after the intent,
// a missing outcome leads to a look-up.
func (b *Bot) create(ctx context.Context, key string, f func() (int64, error)) error {
	if err := b.effects.Intent(key, 0); err != nil {
		return err
	}
	var id int64
	err := b.write(ctx, func() (err error) {
		id, err = f()
		return err
	})
	if id == 0 {
		return err
	}
	if err := b.effects.Outcome(key, id); err != nil {
		return err
	}
	return err
}

// amend edits what is known; where it was deleted, it is made anew the next time.
func (b *Bot) amend(ctx context.Context, key string, id int64, f func() (*github.Response, error)) error {
	err := b.write(ctx, func() error {
		resp, err := f()
		if resp != nil && resp.StatusCode == http.StatusNotFound {
			id = 0
		}
		return err
	})
	if known, knownErr := b.known(key); knownErr != nil || known != id {
		if err := b.effects.Outcome(key, id); err != nil {
			return err
		}
	}
	return err
}
