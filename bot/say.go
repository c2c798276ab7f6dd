package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-github/v66/github"

	"greenward/bot/forge"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// checkName is the check run's name on a pull request's head.
const checkName = forge.Own

// say keeps the one comment of an issue or pull request. It carries its key, is
// looked up before it is written, and is edited only where the text differs.
func (b *Bot) say(ctx context.Context, c *client, number int, text string) error {
	key := fmt.Sprintf("comment/%d", number)
	mark := fmt.Sprintf("<!-- greenward:comment/%s/%s/%d -->", c.Owner, c.Name, number)
	body := cut(text, maxText) + "\n" + mark
	id, err := b.known(key)
	if err != nil {
		return err
	}
	if p := b.mem.Pulls[number]; id == 0 && b.looksUp(key, p != nil && p.Fresh) {
		comments, _, err := forge.Listing(func(o github.ListOptions) ([]*github.IssueComment, *github.Response, error) {
			return c.Issues.ListComments(ctx, c.Owner, c.Name, number, &github.IssueListCommentsOptions{ListOptions: o})
		})
		if err != nil {
			return fmt.Errorf("look the comment up: %w", err)
		}
		for _, found := range comments {
			if c.self(found.GetUser()) && marked(found.GetBody(), number) {
				if id = found.GetID(); found.GetBody() == body {
					return b.effects.Outcome(key, id)
				}
				break
			}
		}
	}
	if id != 0 {
		return b.amend(key, id, func() (*github.Response, error) {
			made, resp, err := c.Issues.EditComment(ctx, c.Owner, c.Name, id, &github.IssueComment{Body: &body})
			b.wrote(number, made)
			return resp, err
		})
	}
	return b.create(key, func() (int64, error) {
		made, _, err := c.Issues.CreateComment(ctx, c.Owner, c.Name, number, &github.IssueComment{Body: &body})
		b.wrote(number, made)
		return made.GetID(), err
	})
}

// marked reports whether a comment of ours is the one of an issue, under whatever name
// the repository had then.
func marked(body string, number int) bool {
	_, mark, found := strings.Cut(body, "<!-- greenward:comment/")
	return found && strings.HasSuffix(strings.TrimSpace(mark), fmt.Sprintf("/%d -->", number))
}

// wrote notes when a comment of ours moved a pull request.
func (b *Bot) wrote(number int, made *github.IssueComment) {
	if p := b.mem.Pulls[number]; p != nil && made.GetID() != 0 {
		p.Wrote = made.GetUpdatedAt().Time
	}
}

// maxAnnotations is how many GitHub takes in one request; more are sent by updates,
// up to maxAnnotated.
const (
	maxAnnotations = 50
	maxAnnotated   = 150
)

// check keeps the one check run on a head; with a token, which GitHub gives no
// check runs, or without the permission for them, a commit status. A run that is
// completed is not opened again: what is asked for once more gets a new one.
func (b *Bot) check(ctx context.Context, c *client, p *pull, v verdict) error {
	if !c.asApp || !c.may("checks") {
		return b.status(ctx, c, p.Entry, v)
	}
	if p.CheckDone && v.status != "completed" {
		p.Attempt, p.CheckDone = p.Attempt+1, false
	}
	key, external := "check/"+v.entry, v.entry // two pull requests may have one head
	if p.Attempt > 0 {
		key, external = fmt.Sprintf("%s/%d", key, p.Attempt), fmt.Sprintf("%s/%d", external, p.Attempt)
	}
	id, err := b.known(key)
	if err != nil {
		return err
	}
	if id == 0 {
		if !b.looksUp(key, p.Fresh) {
			id = 0
		} else if id, err = b.findCheck(ctx, c, p.Entry, external); err != nil {
			return err
		}
	}
	shape := shapeOf(v)
	shape.key, shape.external = key, external
	if id == 0 {
		err = b.create(key, func() (int64, error) {
			made, _, err := c.Checks.CreateCheckRun(ctx, c.Owner, c.Name, github.CreateCheckRunOptions{
				Name: checkName, HeadSHA: string(p.Entry), ExternalID: &external, Status: &v.status, Conclusion: shape.conclusion, Output: shape.output, Actions: shape.actions,
			})
			id = made.GetID()
			return id, err
		})
	} else {
		err = b.updateCheck(ctx, c, id, shape)
	}
	if err == nil {
		p.CheckDone = v.status == "completed"
	}
	for err == nil && len(shape.more) > 0 {
		n := min(len(shape.more), maxAnnotations)
		shape.output.Annotations, shape.more = shape.more[:n], shape.more[n:]
		if err = b.turn(); err == nil {
			err = b.updateCheck(ctx, c, id, shape)
		}
	}
	return err
}

func (b *Bot) updateCheck(ctx context.Context, c *client, id int64, shape shape) error {
	return b.amend(shape.key, id, func() (*github.Response, error) {
		_, resp, err := c.Checks.UpdateCheckRun(ctx, c.Owner, c.Name, id, github.UpdateCheckRunOptions{
			Name: checkName, ExternalID: &shape.external, Status: &shape.status, Conclusion: shape.conclusion, Output: shape.output, Actions: shape.actions,
		})
		return resp, err
	})
}

// findCheck looks up what an earlier life may have written.
func (b *Bot) findCheck(ctx context.Context, c *client, head git.Hash, external string) (id int64, err error) {
	runs, _, err := c.Checks.ListCheckRunsForRef(ctx, c.Owner, c.Name, string(head), &github.ListCheckRunsOptions{CheckName: new(checkName), AppID: &b.cfg.App})
	if err != nil {
		return 0, fmt.Errorf("look it up: %w", err)
	}
	for _, r := range runs.CheckRuns {
		if r.GetExternalID() == external && r.GetApp().GetID() == b.cfg.App {
			id = max(id, r.GetID())
		}
	}
	return id, nil
}

// shape is a verdict in GitHub's terms, within its limits: 65,535 bytes of text,
// 50 annotations and 3 actions a request.
type shape struct {
	key, external, status string // under which it is recorded, and known to GitHub

	conclusion *string
	output     *github.CheckRunOutput
	actions    []*github.CheckRunAction
	more       []*github.CheckRunAnnotation
}

func shapeOf(v verdict) shape {
	s := shape{status: v.status, output: &github.CheckRunOutput{Title: &v.title, Summary: new(cut(v.summary, maxText)), Text: new(cut(v.text, maxText))}}
	if v.conclusion != "" {
		s.conclusion = &v.conclusion
	}
	if v.again {
		s.actions = []*github.CheckRunAction{{Label: "Ask once more", Description: "Put the same head into the queue again", Identifier: "retry"}}
	}
	for _, path := range v.paths[:min(len(v.paths), maxAnnotated)] {
		s.more = append(s.more, &github.CheckRunAnnotation{
			Path: new(Clean(path)), StartLine: new(1), EndLine: new(1), AnnotationLevel: new("failure"), Message: new(v.title),
		})
	}
	n := min(len(s.more), maxAnnotations)
	s.output.Annotations, s.more = s.more[:n], s.more[n:]
	return s
}

// status is the verdict as a commit status.
func (b *Bot) status(ctx context.Context, c *client, head git.Hash, v verdict) error {
	state := map[string]string{"success": "success", "failure": "failure", "cancelled": "error"}[v.conclusion]
	if state == "" {
		state = "pending"
	}
	_, _, err := c.Repositories.CreateStatus(ctx, c.Owner, c.Name, string(head),
		&github.RepoStatus{State: &state, Context: new(checkName), Description: new(cut(v.title, 120))})
	if err != nil {
		return fmt.Errorf("set the status: %w", err)
	}
	return nil
}

// looksUp reports whether something may have been written under a key that the
// record of effects has no outcome of.
func (b *Bot) looksUp(key string, fresh bool) bool {
	return !fresh || slices.ContainsFunc(b.effects.Pending(), func(e journal.Effect) bool { return e.Key == key })
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
func (b *Bot) create(key string, f func() (int64, error)) error {
	if err := b.effects.Intent(key, 0); err != nil {
		return err
	}
	id, err := f()
	if id == 0 {
		return err
	}
	if err := b.effects.Outcome(key, id); err != nil {
		return err
	}
	return err
}

// amend edits what is known; where it was deleted, it is made anew the next time.
func (b *Bot) amend(key string, id int64, f func() (*github.Response, error)) error {
	resp, err := f()
	if resp != nil && resp.StatusCode == http.StatusNotFound {
		id = 0
	}
	if known, knownErr := b.known(key); knownErr != nil || known != id {
		if err := b.effects.Outcome(key, id); err != nil {
			return err
		}
	}
	return err
}
