package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"greenward/agents/model"
	"greenward/agents/prompts"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// Planner pursues one goal: the GOAL.md in its directory. It writes tasks and
// nothing else. It is for one goroutine.
type Planner struct {
	Repo       *git.Repo        // required: the hub
	Main       git.Ref          // required
	Path       string           // required: its id, the directory of its GOAL.md below tasks/
	Agent      string           // required: name of workspace and transcript
	Client     model.Client     // required
	Workspaces *Workspaces      // required
	Landings   Landings         // required
	Now        func() time.Time // required
	Rand       io.Reader        // required; crypto/rand.Reader outside tests
	Model      string           // empty: the client's
	Effort     string
	Limits     Limits          // of one episode
	Checks     []prompts.Check // how the project is judged
	Workers    int             // how many wait for tasks; 0: unknown
	MaxTasks   int             // new tasks in one episode; 0: 200
	Transcript *Transcript     // nil: none
}

// News is what a planner has not seen yet.
type News struct {
	Main     git.Hash  // the tip it was read at
	Seen     git.Hash  // the cursor; the zero Hash before the first episode
	Mark     string    // the caller's own cursor, as of the last episode
	Open     bool      // the goal is still open
	Goal     string    // the text of GOAL.md
	Board    Board     // its own part of the open work
	Handoffs []Landed  // since the cursor, oldest first
	Pending  bool      // a plan was submitted and not settled: Episode settles it first
	state    planState // as its ref holds it
}

// Landed is one hand-off on main.
type Landed struct {
	Handoff
	Commit  git.Hash
	Subject string
	Body    string
}

// Episode is one turn of a planner.
type Episode struct {
	Seen      git.Hash // the main commit that it planned from
	Created   []Task
	Withdrawn []string // paths
	Finished  bool
	Entry     string // of the plan's change; empty when it changed nothing on main
	Landed    git.Hash
	Cut       Cut // why the conversation ended early; then it planned only what Created says
	Spent     model.Usage
	Settled   bool // it only settled a plan of an earlier life
}

// Wake is what the caller adds to an episode.
type Wake struct {
	Claim Claim    // required: the planner's own claim, renewed by the caller
	Notes []string // other events: messages of people, ejections, alerts
	Green string   // how green stands, in a few lines
	// Awaits is what is on its way besides tasks and will wake the planner; empty:
	// nothing, and then it cannot wait with nothing open.
	Awaits string
	Mark   string // kept with the cursor, for the caller to know which Notes were seen
}

// Read gathers what the planner has not seen, at main's tip.
func (p *Planner) Read(ctx context.Context) (News, error) {
	main, err := p.Repo.Resolve(p.Main)
	if err != nil {
		return News{}, fmt.Errorf("read what %s has not seen: %w", p.Path, err)
	}
	state, err := p.readState()
	if err != nil {
		return News{}, err
	}
	n := News{Main: main, Seen: state.Seen, Mark: state.Mark, Pending: !state.Plan.IsZero(), state: state}
	goal, err := p.Repo.File(main, GoalPath(p.Path))
	switch {
	case err == nil:
		n.Open, n.Goal = true, strings.ToValidUTF8(string(goal), "\ufffd")
	case !errors.Is(err, git.ErrNotFound):
		return News{}, fmt.Errorf("read the goal of %s: %w", p.Path, err)
	}
	board, err := OpenTasks(p.Repo, main, RunOf(p.Path))
	if err != nil {
		return News{}, err
	}
	n.Board = board.Of(p.Path)
	n.Handoffs, err = HandoffsSince(ctx, p.Repo, main, state.Seen, p.Path)
	return n, err
}

// HandoffsSince is every hand-off of a planner's own tasks and slices that landed
// after since, up to and with main; oldest first. No since: all there are.
func HandoffsSince(ctx context.Context, repo *git.Repo, main, since git.Hash, planner string) ([]Landed, error) {
	hashes, err := repo.RevList(ctx, []git.Hash{main}, []git.Hash{since}, "--reverse", "--grep=^Handoff: ", "--extended-regexp")
	if err != nil {
		return nil, fmt.Errorf("list hand-offs: %w", err)
	}
	var all []Landed
	for _, hash := range hashes {
		commit, err := repo.Commit(hash)
		if err != nil {
			return nil, fmt.Errorf("list hand-offs: %w", err)
		}
		m := git.ParseMessage(commit.Message)
		h, err := ParseHandoff(m.Trailers)
		if err != nil || PlannerOf(h.Task) != planner {
			continue // no hand-off, or not written by the harness: its text speaks for nobody
		}
		all = append(all, Landed{Handoff: h, Commit: hash, Subject: m.Subject, Body: m.Body})
	}
	return all, nil
}

// Episode settles what an earlier life left, or wakes the planner once: a fresh
// conversation over everything since its cursor. Its new tasks land as one
// change; only then the cursor moves, so that events are never planned for twice
// nor lost. When it was finished, the goal's file is gone.
func (p *Planner) Episode(ctx context.Context, wake Wake) (Episode, error) {
	ctx = zerolog.Ctx(ctx).With().Str("agent", p.Agent).Str("planner", p.Path).Logger().WithContext(ctx)
	news, err := p.Read(ctx)
	if err != nil {
		return Episode{}, err
	}
	if news.Pending {
		return p.settle(ctx, news.state)
	}
	if !news.Open {
		return Episode{Seen: news.Seen, Finished: true}, nil
	}
	draft, cut, spent, err := p.converse(ctx, news, wake)
	if err != nil {
		return Episode{Spent: spent}, fmt.Errorf("plan %s: %w", p.Path, err)
	}
	e := Episode{Seen: news.Main, Created: draft.created, Withdrawn: draft.withdrawn, Finished: draft.finished, Cut: cut, Spent: spent}
	if cut != "" && !draft.changes() {
		return e, nil // nothing was decided: the cursor stays
	}
	next := planState{Seen: news.Main, Mark: wake.Mark, Scratchpad: draft.scratchpad}
	if !draft.changes() {
		return e, p.writeState(ctx, news.state, next, nil)
	}
	next.Plan, err = p.composePlan(ctx, news.Main, draft, wake.Claim)
	if err != nil {
		return e, fmt.Errorf("plan %s: %w", p.Path, err)
	}
	if err := p.submitPlan(ctx, news.state, &next); err != nil {
		return e, fmt.Errorf("plan %s: %w", p.Path, err)
	}
	settled, err := p.settle(ctx, next)
	e.Entry, e.Landed = settled.Entry, settled.Landed
	return e, err
}

// settle brings a submitted plan to its end: it waits for the decision, submits
// anew what did not get through, and moves the cursor once main has it.
func (p *Planner) settle(ctx context.Context, state planState) (Episode, error) {
	name := planName(p.Path, state.Seen)
	for try := 0; ; try++ {
		landed, err := p.onMain(ctx, state.Seen)
		if err != nil {
			return Episode{}, err
		}
		entry := git.EntryID(name, state.Plan)
		if landed.IsZero() {
			if err := p.ensureQueued(ctx, name, state.Plan); err != nil {
				return Episode{}, err
			}
			decision, err := p.Landings.Await(ctx, entry)
			if err != nil {
				return Episode{}, fmt.Errorf("await the plan %s: %w", entry, err)
			}
			if decision.State != journal.Landed {
				if try >= maxRounds || reason(decision) == journal.ReasonSuperseded {
					return Episode{}, p.dropPlan(ctx, state, decision)
				}
				if state, err = p.replan(ctx, state); err != nil {
					return Episode{}, err
				}
				continue
			}
			if decision.Landed != nil {
				landed = *decision.Landed
			}
		}
		done := planState{Seen: state.Seen, Mark: state.Mark, Scratchpad: state.Scratchpad}
		if err := p.writeState(ctx, state, done, nil); err != nil {
			return Episode{}, err
		}
		zerolog.Ctx(ctx).Info().Str("change", entry).Str("commit", string(landed)).Msg("plan landed")
		return Episode{Seen: state.Seen, Entry: entry, Landed: landed, Settled: true}, nil
	}
}

// errPlanRefused says that the queue does not take a plan.
var errPlanRefused = errors.New("the queue refuses the plan")

// dropPlan forgets a plan that cannot land; the events it answered are planned
// for again.
func (p *Planner) dropPlan(ctx context.Context, state planState, d journal.Decision) error {
	back := planState{Seen: state.Before, Mark: state.MarkBefore, Scratchpad: state.Scratchpad}
	why := fmt.Errorf("plan %s: %w: %s %s %s", p.Path, errPlanRefused, d.State, reason(d), strings.Join(d.Paths, ", "))
	return errors.Join(why, p.writeState(ctx, state, back, nil))
}

// onMain finds the plan made from the main commit seen, if it has landed.
func (p *Planner) onMain(ctx context.Context, seen git.Hash) (git.Hash, error) {
	main, err := p.Repo.Resolve(p.Main)
	if err != nil {
		return "", err
	}
	hashes, err := p.Repo.RevList(ctx, []git.Hash{main}, []git.Hash{seen}, "--fixed-strings", "--grep="+keySeen+": "+string(seen))
	if err != nil {
		return "", fmt.Errorf("look for the plan of %s: %w", p.Path, err)
	}
	for _, hash := range hashes {
		commit, err := p.Repo.Commit(hash)
		if err != nil {
			return "", err
		}
		t := commit.Trailers()
		if slices.Equal(t.All(keyPlanner), []string{p.Path}) && slices.Equal(t.All(keySeen), []string{string(seen)}) {
			return hash, nil
		}
	}
	return "", nil
}

// ensureQueued puts the plan's branch back if a crash came between the planner's
// ref and it. A decision that was made already stands in the log.
func (p *Planner) ensureQueued(ctx context.Context, name string, head git.Hash) error {
	ref, err := git.QueueRef(name)
	if err != nil {
		return err
	}
	tip, err := p.Repo.Tip(ref)
	if err != nil || tip == head {
		return err
	}
	decided, err := journal.LoadQueue(p.Repo)
	if err != nil {
		return err
	}
	if d, ok := decided.Find(git.EntryID(name, head)); ok && d.State != journal.Gated {
		return nil
	}
	err = p.Repo.Transact(ctx, "submit "+name, []git.RefUpdate{{Ref: ref, New: head, Old: tip}})
	if _, raced := errors.AsType[*git.RaceError](err); raced {
		return nil // somebody moved it this moment: Await sees what becomes of it
	}
	return err
}

// planName is the queue branch of a plan: one for each planner and cursor.
func planName(path string, seen git.Hash) string {
	return "plan-" + strings.ReplaceAll(path, "/", "-") + "-" + seen.Short()
}

// describe is the message that wakes the planner.
func (p *Planner) describe(n News, wake Wake) string {
	var b strings.Builder
	section := func(title, text string) {
		if text = strings.TrimSpace(text); text != "" {
			b.WriteString("## " + title + "\n\n" + text + "\n\n")
		}
	}
	section("Goal", n.Goal)
	section("Your scratchpad", n.state.Scratchpad)
	section(fmt.Sprintf("Open tasks (%d)", len(n.Board.Tasks)), describeBoard(n.Board, p.Path))
	section("What happened since you last looked", describeEvents(n, wake.Notes))
	section("Green", wake.Green)
	section("On its way", wake.Awaits)
	if n.Seen.IsZero() {
		b.WriteString("This is the first time you are woken for this goal.\n")
	}
	return b.String()
}

func describeBoard(board Board, self string) string {
	var b strings.Builder
	for i, t := range board.Tasks {
		if i == 300 {
			fmt.Fprintf(&b, "- … and %d more\n", len(board.Tasks)-i)
			break
		}
		fmt.Fprintf(&b, "- `%s` p%d %s", t.ID, t.Priority, t.Title)
		if len(t.After) > 0 {
			fmt.Fprintf(&b, " (after %s)", strings.Join(t.After, ", "))
		}
		b.WriteByte('\n')
	}
	for _, g := range board.Goals {
		if g.Planner != self {
			fmt.Fprintf(&b, "- slice `%s`, owned by its own planner\n", g.Planner)
		}
	}
	for _, m := range board.Malformed {
		fmt.Fprintf(&b, "- MALFORMED, no worker gets it (withdraw it and write it anew): %s\n", m.Error())
	}
	return cmp.Or(b.String(), "None.")
}

func describeEvents(n News, notes []string) string {
	var b strings.Builder
	const most = 64 << 10
	for _, h := range n.Handoffs {
		if b.Len() > most {
			b.WriteString("- … more hand-offs; read main's log if you need them\n")
			break
		}
		fmt.Fprintf(&b, "- `%s` %s: %s (commit %s)\n", h.Task, h.Outcome, h.Subject, h.Commit.Short())
		for _, list := range lists(&h.Handoff) {
			for _, value := range *list.values {
				fmt.Fprintf(&b, "  - %s: %s\n", strings.TrimPrefix(list.key, "Handoff-"), value)
			}
		}
		if body := strings.TrimSpace(h.Body); body != "" {
			b.WriteString("  " + strings.ReplaceAll(cut(body, 2000), "\n", "\n  ") + "\n")
		}
	}
	for _, note := range notes {
		b.WriteString("- " + cut(git.OneLine(note), 2000) + "\n")
	}
	return cmp.Or(b.String(), "Nothing.")
}
