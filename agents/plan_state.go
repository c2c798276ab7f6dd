package agents

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"greenward/internal/git"
)

// Files in a planner's ref.
const (
	scratchpadFile = "SCRATCHPAD.md"
	findingsFile   = "FINDINGS.md"
)

// planState is what a planner's ref holds: its scratchpad as a file, its cursor
// as a trailer, and a plan that is on its way.
type planState struct {
	Seen       git.Hash // the newest main commit that the planner has answered
	Mark       string   // the caller's cursor
	Scratchpad string
	Goal       git.Hash // the blob of GOAL.md as the planner knows it
	Made, Gone []string // own tasks and slices that its last plan created, and took back
	Findings   string   // why its word that the goal is met was not taken
	Judged     int      // how often that happened
	Refused    string   // why its last plan was not taken

	Plan       git.Hash // head of a submitted plan that answers Seen; zero when settled
	Before     git.Hash // the cursor before that plan
	MarkBefore string

	commit git.Hash // what the ref held
}

func (p *Planner) ref() (git.Ref, error) { return git.PlannerRef(p.Path) }

// readState reads the planner's ref; before its first episode there is none.
func (p *Planner) readState() (planState, error) {
	ref, err := p.ref()
	if err != nil {
		return planState{}, err
	}
	tip, err := p.Repo.Tip(ref)
	if err != nil || tip.IsZero() {
		return planState{}, err
	}
	return p.stateAt(tip)
}

// stateAt reads one commit of the planner's ref.
func (p *Planner) stateAt(tip git.Hash) (planState, error) {
	commit, err := p.Repo.Commit(tip)
	if err != nil {
		return planState{}, fmt.Errorf("read the cursor of %s: %w", p.Path, err)
	}
	t := commit.Trailers()
	get := func(key string) string { v, _ := t.Get(key); return v }
	s := planState{commit: tip, Mark: get("Mark"), MarkBefore: get("Mark-Before"), Refused: get("Refused")}
	for key, into := range map[string]*git.Hash{keySeen: &s.Seen, "Goal": &s.Goal, "Plan": &s.Plan, "Before": &s.Before} {
		if value := get(key); value != "" {
			if *into, err = git.ParseHash(value); err != nil {
				return planState{}, fmt.Errorf("read the cursor of %s: %s: %w", p.Path, key, err)
			}
		}
	}
	s.Made, s.Gone, s.Judged = t.All("Made"), t.All("Gone"), number(get("Judged"), 0)
	for name, into := range map[string]*string{scratchpadFile: &s.Scratchpad, findingsFile: &s.Findings} {
		text, err := p.Repo.File(tip, name)
		if err != nil && !errors.Is(err, git.ErrNotFound) {
			return planState{}, fmt.Errorf("read the scratchpad of %s: %w", p.Path, err)
		}
		*into = strings.ToValidUTF8(string(text), "\ufffd")
	}
	return s, nil
}

// writeState moves the planner's ref from old to next, with more in the same
// transaction behind it.
func (p *Planner) writeState(ctx context.Context, old, next planState, more []git.RefUpdate) error {
	ref, err := p.ref()
	if err != nil {
		return err
	}
	next.commit, err = p.commitState(old, next)
	if err != nil {
		return fmt.Errorf("write the cursor of %s: %w", p.Path, err)
	}
	updates := append([]git.RefUpdate{{Ref: ref, New: next.commit, Old: old.commit}}, more...)
	if err := p.Repo.Transact(ctx, "plan "+p.Path, updates); err != nil {
		return fmt.Errorf("write the cursor of %s: %w", p.Path, err)
	}
	return nil
}

func (p *Planner) commitState(old, next planState) (git.Hash, error) {
	var files []git.Entry
	for _, one := range [][2]string{{findingsFile, next.Findings}, {scratchpadFile, next.Scratchpad}} {
		if one[1] == "" {
			continue
		}
		blob, err := p.Repo.WriteBlob([]byte(one[1]))
		if err != nil {
			return "", err
		}
		files = append(files, git.Entry{Mode: git.ModeFile, Name: one[0], Hash: blob})
	}
	tree, err := p.Repo.WriteTree(files)
	if err != nil {
		return "", err
	}
	m := git.Message{Subject: cut("plan "+p.Path, maxSubject), Trailers: git.Trailers{{Key: keyPlanner, Value: p.Path}}}
	for _, one := range []git.Trailer{
		{Key: keySeen, Value: string(next.Seen)},
		{Key: "Goal", Value: string(next.Goal)},
		{Key: "Mark", Value: git.OneLine(next.Mark)},
		{Key: "Plan", Value: string(next.Plan)},
		{Key: "Before", Value: string(next.Before)},
		{Key: "Mark-Before", Value: git.OneLine(next.MarkBefore)},
		{Key: "Refused", Value: git.OneLine(cut(next.Refused, 500))},
	} {
		if one.Value != "" {
			m.Trailers = m.Trailers.With(one.Key, one.Value)
		}
	}
	if next.Judged > 0 {
		m.Trailers = m.Trailers.With("Judged", strconv.Itoa(next.Judged))
	}
	for _, id := range next.Made {
		m.Trailers = m.Trailers.With("Made", id)
	}
	for _, id := range next.Gone {
		m.Trailers = m.Trailers.With("Gone", id)
	}
	if err := m.Check(); err != nil {
		return "", err
	}
	var parents []git.Hash
	for _, parent := range []git.Hash{old.commit, next.Plan} { // the second keeps the plan's objects
		if !parent.IsZero() {
			parents = append(parents, parent)
		}
	}
	by := harness(p.Now())
	return p.Repo.WriteCommit(git.CommitInput{Tree: tree, Parents: parents, Author: by, Committer: by, Message: m.String()})
}

// submitPlan writes the cursor with the plan in it and the plan's queue branch in
// one transaction, cursor first: from it a crash between the two is mended.
func (p *Planner) submitPlan(ctx context.Context, old planState, next *planState) error {
	next.Before, next.MarkBefore = old.Seen, old.Mark
	ref, err := git.QueueRef(planName(p.Path, next.Seen))
	if err != nil {
		return err
	}
	tip, err := p.Repo.Tip(ref)
	if err != nil {
		return err
	}
	var more []git.RefUpdate
	if tip != next.Plan {
		more = []git.RefUpdate{{Ref: ref, New: next.Plan, Old: tip}}
	}
	if err := p.writeState(ctx, old, *next, more); err != nil {
		return err
	}
	state, err := p.readState()
	*next = state
	return err
}

// composePlan is the one commit of an episode: new task files and slices,
// withdrawn ones gone, decisions on record and, when the goal is met, the goal's
// file gone too, with the hand-off.
func (p *Planner) composePlan(ctx context.Context, main git.Hash, d *draft, claim Claim) (git.Hash, error) {
	files, err := d.files()
	if err != nil {
		return "", err
	}
	var edits []git.Edit
	for path, text := range files {
		blob, err := p.Repo.WriteBlob([]byte(text))
		if err != nil {
			return "", err
		}
		edits = append(edits, git.Edit{Path: path, Hash: blob})
	}
	for _, path := range d.withdrawn {
		edits = append(edits, git.Edit{Path: path})
	}
	m := d.message(p.Path)
	if d.finished {
		h := d.handoff
		h.Task, h.Claim, h.Outcome, h.Agent, h.Model = p.Path, claim.ID, Done, p.Agent, d.model
		if m, err = h.Message(d.summary, ""); err != nil {
			return "", err
		}
		edits = append(edits, git.Edit{Path: GoalPath(p.Path)})
	}
	for _, slice := range d.spawned {
		m.Trailers = m.Trailers.With(keySpawned, slice.ID)
	}
	m.Trailers = m.Trailers.With(keyPlanner, p.Path).With(keySeen, string(main))
	if err := errors.Join(m.Check(), p.Repo.ProveTrailers(ctx, m.String(), m.Trailers)); err != nil {
		return "", err
	}
	tree, err := p.Repo.EditTree(main, edits)
	if err != nil {
		return "", err
	}
	if before, err := p.Repo.TreeOf(main); err != nil || before == tree {
		return "", err // it decided what stands there already
	}
	by := agentIdentity(p.Agent, p.Now())
	return p.Repo.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{main}, Author: by, Committer: harness(by.When), Message: m.String()})
}

// replan puts a plan that was ejected onto the newest main and submits it anew.
// One that ends or annotates a goal which somebody edited meanwhile does not fit:
// what it answered is asked again.
func (p *Planner) replan(ctx context.Context, state planState) (next planState, fits bool, err error) {
	commit, err := p.Repo.Commit(state.Plan)
	if err != nil {
		return state, false, err
	}
	paths, err := p.Repo.ChangedFiles(commit.Parent(), state.Plan)
	if err != nil {
		return state, false, err
	}
	main, err := p.Repo.Resolve(p.Main)
	if err != nil {
		return state, false, err
	}
	edits, err := p.again(paths, commit, main)
	if err != nil || edits == nil {
		return state, false, err
	}
	tree, err := p.Repo.EditTree(main, edits)
	if err != nil {
		return state, false, err
	}
	next = state
	next.Plan, err = p.Repo.WriteCommit(git.CommitInput{
		Tree: tree, Parents: []git.Hash{main}, Author: commit.Author, Committer: harness(p.Now()), Message: commit.Message,
	})
	if err != nil {
		return state, false, err
	}
	old := state
	old.Seen, old.Mark = state.Before, state.MarkBefore
	err = p.submitPlan(ctx, old, &next)
	return next, err == nil, err
}

// again is the edits of a plan, for another main; nil: they do not fit there.
func (p *Planner) again(paths []string, plan git.Commit, main git.Hash) ([]git.Edit, error) {
	edits := []git.Edit{}
	for _, path := range paths {
		if path == GoalPath(p.Path) || !strings.HasPrefix(path, "tasks/") {
			before, err := p.lookup(plan.Parent(), path)
			if err != nil {
				return nil, err
			}
			now, err := p.lookup(main, path)
			if err != nil || before != now {
				return nil, err
			}
		}
		entry, err := p.lookup(plan.Hash, path)
		if err != nil {
			return nil, err
		}
		edits = append(edits, git.Edit{Path: path, Hash: entry.Hash, Mode: entry.Mode})
	}
	return edits, nil
}

// lookup is a path's entry, or the zero Entry.
func (p *Planner) lookup(treeish git.Hash, path string) (git.Entry, error) {
	entry, err := p.Repo.Lookup(treeish, path)
	if errors.Is(err, git.ErrNotFound) {
		return git.Entry{}, nil
	}
	return entry, err
}
