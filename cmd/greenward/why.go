package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// storyLine is one thing that happened, as `why --json` prints it.
type storyLine struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// story gathers what happened to one thing.
type story struct {
	app   *app
	place *place
	log   *journal.QueueLog
	lines []storyLine
	seen  map[string]bool
}

func whyCommand() command {
	return command{
		name: "why", args: "TASK | CHANGE | COMMIT | AGENT | RUN", summary: "the story of one thing, in order", example: "greenward why build-a-parser-1a2b/lexer-k3x9\ngreenward why lexer-k3x9-4f1c2ab97d10@0123456789ab\ngreenward why main~3\ngreenward why worker-003 --json",
		run: func(a *app, _ *flag.FlagSet) func(context.Context, []string) error {
			return func(ctx context.Context, args []string) error {
				if len(args) != 1 || args[0] == "" {
					return usagef("why: name one task, change, commit, agent or run")
				}
				return a.why(ctx, args[0])
			}
		},
	}
}

func (a *app) why(ctx context.Context, subject string) error {
	p, err := a.current(ctx)
	if err != nil {
		return err
	}
	s := &story{app: a, place: p, seen: map[string]bool{}}
	if s.log, err = journal.LoadQueue(p.hub.Repo); err != nil {
		return err
	}
	kind, err := s.tell(ctx, subject)
	if err != nil {
		return err
	}
	if kind == "" {
		return usagef("why: %q is no task, change, commit, agent or run that this hub knows; greenward tasks, queue, handoffs and log tell names", subject)
	}
	slices.SortStableFunc(s.lines, func(a, b storyLine) int { return a.At.Compare(b.At) })
	return a.print(map[string]any{"subject": subject, "kind": kind, "story": append([]storyLine{}, s.lines...)}, func(w io.Writer) {
		line(w, "%s %s", kind, subject)
		for _, l := range s.lines {
			line(w, "%s  %s", l.At.Format(time.DateTime), printable(l.What))
		}
	})
}

func (s *story) add(at time.Time, format string, args ...any) {
	text := git.OneLine(fmt.Sprintf(format, args...))
	if key := at.String() + text; !s.seen[key] {
		s.seen[key] = true
		s.lines = append(s.lines, storyLine{at.UTC(), text})
	}
}

// tell finds out what the subject is, and what happened to it.
func (s *story) tell(ctx context.Context, subject string) (kind string, err error) {
	if strings.Contains(subject, "@") {
		return s.change(subject)
	}
	if strings.Contains(subject, "/") {
		if err := s.task(ctx, subject); err != nil || len(s.lines) > 0 {
			return "task", err
		}
	}
	if run, err := s.isRun(subject); err != nil {
		return "", err
	} else if run {
		if err := s.task(ctx, subject); err != nil || len(s.lines) > 0 { // a run is the task of its planner
			return "run", err
		}
	}
	files, err := agents.Query{Agent: subject}.Transcripts(s.place.hub.State())
	if err == nil && len(files) > 0 {
		return "agent", s.agent(ctx, subject)
	}
	commit, err := s.place.commit(ctx, subject)
	if errors.Is(err, git.ErrNotFound) {
		return s.named(ctx, subject)
	}
	if err != nil {
		return "", usagef("why: %v", err)
	}
	// A change is called after the branch that it was submitted from.
	if s.decisions(func(d journal.Decision) bool { return strings.HasPrefix(d.Entry, subject+"@") }); len(s.lines) > 0 {
		return "change", s.commit(ctx, commit)
	}
	return "commit", s.commit(ctx, commit)
}

// isRun reports whether a name without a slash is that of a run, whose id is that of
// the task which is its whole goal: it has a GOAL.md, or a planner had it.
func (s *story) isRun(name string) (bool, error) {
	ref, err := git.PlannerRef(name)
	if err != nil {
		return false, nil //nolint:nilerr // no run is called so
	}
	tip, err := s.place.hub.Tip(ref)
	if err != nil || !tip.IsZero() {
		return err == nil, err
	}
	_, err = s.place.hub.Lookup(s.place.tip, agents.GoalPath(name))
	if errors.Is(err, git.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// named is for what no ref and no transcript is called: the changes of a branch, or an
// agent that worked elsewhere.
func (s *story) named(ctx context.Context, name string) (string, error) {
	s.decisions(func(d journal.Decision) bool { return strings.HasPrefix(d.Entry, name+"@") })
	if len(s.lines) > 0 {
		return "change", nil
	}
	if err := s.agent(ctx, name); err != nil || len(s.lines) > 0 {
		return "agent", err
	}
	if err := s.task(ctx, name); err != nil || len(s.lines) == 0 {
		return "", err
	}
	return "run", nil // of which nothing but commits is left here
}

func (s *story) change(entry string) (string, error) {
	d, ok := s.log.Find(entry)
	if !ok {
		name, head, _ := strings.Cut(entry, "@")
		ref, err := git.QueueRef(name)
		if err != nil {
			return "", nil //nolint:nilerr // no entry is called so: it may be something else
		}
		tip, err := s.place.hub.Tip(ref)
		if err != nil || !strings.HasPrefix(string(tip), head) {
			return "", err
		}
		s.add(s.app.now(), "waits in the queue")
		return "change", nil
	}
	s.decisions(func(one journal.Decision) bool { return one.Entry == entry })
	if d.Task != "" {
		return "change", s.episodes(agents.Query{Task: d.Task})
	}
	return "change", nil
}

// decisions adds what the queue decided of some entries.
func (s *story) decisions(of func(journal.Decision) bool) {
	for _, d := range s.log.All() {
		if !of(d) {
			continue
		}
		text := d.Entry + " " + d.State
		if d.Reason != nil {
			text += ": " + *d.Reason
		}
		if d.With != nil {
			text += " with " + *d.With
		}
		if len(d.Paths) > 0 {
			text += " in " + pathList(d.Paths)
		}
		if d.Detail != nil {
			text += ": " + *d.Detail
		}
		if d.Landed != nil {
			text += " as " + d.Landed.Short()
		}
		s.add(d.At, "%s (by %s)", text, d.By)
	}
}

func (s *story) task(ctx context.Context, id string) error {
	if err := agents.CheckID(id); err != nil {
		return nil //nolint:nilerr // it is no task, and may be a path of something else
	}
	hub := s.place.hub.Repo
	hashes, err := hub.RevList(ctx, []git.Hash{s.place.tip}, nil, "--reverse", "--fixed-strings", "--grep="+id)
	if err != nil {
		return err
	}
	for _, h := range hashes {
		c, err := hub.Commit(h)
		if err != nil {
			return err
		}
		if handoff, err := agents.ParseHandoff(c.Trailers()); err == nil && handoff.Task == id {
			s.handoff(c, handoff)
			continue
		}
		if speaksOf(c.Message, id) {
			s.add(c.Committer.When, "%s: %s", c.Hash.Short(), git.ParseMessage(c.Message).Subject)
		}
	}
	if _, err := hub.Lookup(s.place.tip, agents.TaskPath(id)); err == nil {
		s.add(s.app.now(), "is open on %s", s.place.main.Short())
	}
	leaf := id[strings.LastIndexByte(id, '/')+1:]
	s.decisions(func(d journal.Decision) bool { return d.Task == id || strings.HasPrefix(d.Entry, leaf+"-") })
	if claim, err := (&agents.Claims{Repo: hub, Now: s.app.now}).Read(id); err == nil && claim.ID != "" {
		s.add(s.app.now(), "is held by %s (claim %s, generation %d)", claim.Holder, claim.ID, claim.Generation)
	}
	rescued, err := agents.ListRescued(hub, id)
	if err != nil {
		return err
	}
	for _, r := range rescued {
		c, err := hub.Commit(r.Commit)
		if err != nil {
			return err
		}
		what, err := s.kept(ctx, c)
		if err != nil {
			return err
		}
		s.add(c.Committer.When, "%s is kept at %s", what, r.Ref)
	}
	return s.episodes(agents.Query{Task: id})
}

// kept says of rescued work whether main has it too: a workspace is rescued whenever
// it ends before its hand-off is known to have landed.
func (s *story) kept(ctx context.Context, c git.Commit) (string, error) {
	const lost = "work that did not land"
	if len(c.Parents) != 1 {
		return lost, nil
	}
	hub := s.place.hub.Repo
	paths, err := hub.ChangedPaths(ctx, c.Parents[0], c.Hash)
	if err != nil {
		return "", err
	}
	for _, path := range paths {
		if strings.HasPrefix(path, "tasks/") {
			continue
		}
		was, err := hub.Lookup(c.Hash, path)
		if err != nil && !errors.Is(err, git.ErrNotFound) {
			return "", err
		}
		is, err := hub.Lookup(s.place.tip, path)
		if err != nil && !errors.Is(err, git.ErrNotFound) {
			return "", err
		}
		if was.Hash != is.Hash {
			return lost + " as it was", nil
		}
	}
	return "a copy of work that main has", nil
}

// speaksOf reports whether a message speaks of the task itself, and not of one whose
// id is longer.
func speaksOf(message, id string) bool {
	for word := range strings.FieldsFuncSeq(message, func(r rune) bool { return strings.ContainsRune(" \n\t:,;\"'`()", r) }) {
		if word == id || word == agents.TaskPath(id) {
			return true
		}
	}
	return false
}

func (s *story) handoff(c git.Commit, h agents.Handoff) {
	s.add(c.Committer.When, "%s handed off %s by %s (%s), %s: %s", c.Hash.Short(), h.Outcome, h.Agent, orElse(h.Model, "no model"), h.Task, git.ParseMessage(c.Message).Subject)
	for _, list := range [][]string{h.Checks, h.Flags, h.Notes, h.Concerns, h.Deviations, h.Findings} {
		for _, text := range list {
			s.add(c.Committer.When, "  %s", text)
		}
	}
}

// episodes adds what transcripts of this host say, without the conversations.
func (s *story) episodes(q agents.Query) error {
	q.Kinds = []string{agents.EventStart, agents.EventNote, agents.EventFresh, agents.EventEnd}
	files, err := q.Transcripts(s.place.hub.State())
	if err != nil {
		return err
	}
	for _, file := range files {
		for e, err := range q.Events(file) {
			if err != nil {
				return err
			}
			switch e.Kind {
			case agents.EventStart:
				s.add(e.At, "%s begins on %s as %s with %s", e.Agent, e.Task, e.Role, orElse(e.Model, "a command"))
			case agents.EventEnd:
				s.add(e.At, "%s ends: %s", e.Agent, strings.TrimSpace(e.Outcome+" "+e.Text))
			default:
				s.add(e.At, "%s: %s", e.Agent, e.Text)
			}
		}
	}
	return nil
}

func (s *story) agent(ctx context.Context, name string) error {
	if err := s.episodes(agents.Query{Agent: name}); err != nil {
		return err
	}
	for h, err := range agents.Handoffs(ctx, s.place.hub.Repo, s.place.tip, "", func(h agents.Handoff) bool { return h.Agent == name }) {
		if err != nil {
			return err
		}
		s.handoff(h.Commit, h.Handoff)
	}
	return nil
}

func (s *story) commit(ctx context.Context, hash git.Hash) error {
	c, err := s.place.hub.Commit(hash)
	if err != nil {
		return err
	}
	s.add(c.Author.When, "%s written by %s: %s", c.Hash.Short(), c.Author.Name, git.ParseMessage(c.Message).Subject)
	entry, _ := c.Trailers().Get("Change")
	landed := false // as another commit: what asked to land was rebased or squashed
	s.decisions(func(d journal.Decision) bool {
		landed = landed || d.Head == hash && d.Landed != nil && *d.Landed != hash
		return d.Head == hash || d.Landed != nil && *d.Landed == hash || entry != "" && d.Entry == entry
	})
	if h, err := agents.ParseHandoff(c.Trailers()); err == nil {
		if err := s.task(ctx, h.Task); err != nil {
			return err
		}
	}
	promotions, err := journal.ReadPromotions(s.place.hub.Repo)
	if err != nil {
		return err
	}
	for _, p := range promotions {
		for _, culprit := range p.Culprits {
			if culprit.Commit == hash {
				s.add(p.At, "found to make %s fail (%s, %.0f %%)", culprit.Check, culprit.Kind, 100*culprit.Confidence)
			}
		}
		for _, out := range p.Excluded {
			if out.Commit == hash {
				s.add(p.At, "left out of green: %s", out.Reason)
			}
		}
	}
	if landed {
		return nil // where it stands is told of the commit that it landed as
	}
	return s.green(ctx, hash)
}

// green says where a commit stands towards green.
func (s *story) green(ctx context.Context, hash git.Hash) error {
	e, err := s.app.wire(ctx, s.place)
	if err != nil {
		return err
	}
	y, err := e.green.Why(ctx, hash)
	if err != nil || y.Commit == nil {
		return err
	}
	var text strings.Builder
	showPlace(&text, *y.Commit)
	s.add(s.app.now(), "%s", text.String())
	return nil
}
