package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
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
	Boards     *BoardReader    // shared by the planners of a run; nil: everything is read each time
	Caps       Caps            // of the tree of planners
	Spawns     *Spawns         // shared by the planners of a run in this process; nil: it is the only one
	// Understand wants the goal to be understood in writing before anything is
	// planned; Confirm ends the turn there, so that a person can look at it.
	Understand, Confirm bool
	// Review is asked before a goal ends; nil: the planner's word is taken.
	Review func(ctx context.Context, p Proposal) (Review, error)
}

// Proposal is what a planner says who holds its goal to be met.
type Proposal struct {
	Planner, Goal, Summary string
	Main                   git.Hash // what it looked at
	Rounds                 int      // how often its word was not taken so far
}

// Review is what became of a proposal.
type Review struct {
	Met      bool
	Findings string // why not; the planner reads it at its next turn
	Note     string // goes into the hand-off of a goal that is met
}

// News is what a planner has not seen yet.
type News struct {
	Main     git.Hash // the tip it was read at
	Seen     git.Hash // the cursor; the zero Hash before the first episode
	Mark     string   // the caller's own cursor, as of the last episode
	Open     bool     // the goal is still open
	Goal     string   // the text of GOAL.md
	Board    Board    // its own part of the open work
	Handoffs []Landed // since the cursor, oldest first
	Pending  bool     // a plan was submitted and not settled: Episode settles it first
	Dropped  []string // own tasks and slices that went without a hand-off since the cursor
	Changed  bool     // somebody edited the goal since the cursor
	Findings string   // why the planner's last word was not taken
	Refused  string   // why its last plan was not taken
	planner  string
	state    planState // as its ref holds it
}

// Waits reports whether there is something that the planner has not answered.
func (n News) Waits() bool {
	return n.Open && n.Seen.IsZero() || n.Pending || len(n.Handoffs)+len(n.Dropped) > 0 || n.Changed || n.Findings != "" || n.Refused != ""
}

// Coming reports whether work is open whose end will wake the planner.
func (n News) Coming() bool {
	return n.open() > 0
}

// open counts the planner's own open tasks and slices.
func (n News) open() int {
	count := len(n.Board.Tasks)
	for _, g := range n.Board.Goals {
		if PlannerOf(g.Planner) == n.planner {
			count++
		}
	}
	return count
}

// Landed is one hand-off on main.
type Landed struct {
	Handoff
	Commit  git.Commit
	Subject string
	Body    string
}

// Episode is one turn of a planner.
type Episode struct {
	Seen       git.Hash // the main commit that it planned from
	Created    []Task
	Spawned    []Slice
	Withdrawn  []string // paths
	Finished   bool
	Understood bool   // it wrote how it reads the goal
	Findings   string // why its word that the goal is met was not taken
	Refused    string // why the queue did not take the plan; what it answered is planned for again
	Entry      string // of the plan's change; empty when it changed nothing on main
	Landed     git.Hash
	Cut        Cut // why the conversation ended early; then it planned only what Created says
	Spent      model.Usage
	Settled    bool // it only settled a plan of an earlier life
}

// Barren reports whether the conversation was cut before it decided anything: what
// woke the planner is still to be answered.
func (e Episode) Barren() bool {
	return e.Cut != "" && !e.Finished && !e.Understood && e.Findings == "" && e.Entry == "" &&
		len(e.Created)+len(e.Spawned)+len(e.Withdrawn) == 0
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
	n := News{planner: p.Path, Main: main, Seen: state.Seen, Mark: state.Mark, Pending: !state.Plan.IsZero(), state: state}
	goal, err := p.Repo.File(main, GoalPath(p.Path))
	switch {
	case err == nil:
		n.Open, n.Goal = true, strings.ToValidUTF8(string(goal), "\ufffd")
	case !errors.Is(err, git.ErrNotFound):
		return News{}, fmt.Errorf("read the goal of %s: %w", p.Path, err)
	}
	board, err := p.board(main)
	if err != nil {
		return News{}, err
	}
	n.Board, n.Findings, n.Refused = board.Of(p.Path), state.Findings, state.Refused
	if state.Seen == main {
		return n, nil
	}
	for h, err := range Handoffs(ctx, p.Repo, main, state.Seen, func(h Handoff) bool { return PlannerOf(h.Task) == p.Path }) {
		if err != nil {
			return News{}, err
		}
		n.Handoffs = append(n.Handoffs, h)
	}
	slices.Reverse(n.Handoffs)
	return n, p.compare(&n)
}

// Handoffs is every hand-off on main that since does not hold and that wanted takes,
// newest first, whichever way it landed; no since: of all there are. A commit whose
// trailers are not those of one hand-off speaks for nobody and is left out.
func Handoffs(ctx context.Context, repo *git.Repo, main, since git.Hash, wanted func(Handoff) bool) iter.Seq2[Landed, error] {
	return func(yield func(Landed, error) bool) {
		hashes, err := repo.RevList(ctx, []git.Hash{main}, []git.Hash{since}, "--grep=^Handoff: ", "--extended-regexp")
		if err != nil {
			yield(Landed{}, fmt.Errorf("list hand-offs: %w", err))
			return
		}
		for _, hash := range hashes {
			commit, err := repo.Commit(hash)
			if err != nil {
				yield(Landed{}, fmt.Errorf("list hand-offs: %w", err))
				return
			}
			m := git.ParseMessage(commit.Message)
			h, err := ParseHandoff(m.Trailers)
			if err != nil || !wanted(h) {
				continue // no hand-off, or not written by the harness
			}
			if !yield(Landed{Handoff: h, Commit: commit, Subject: m.Subject, Body: m.Body}, nil) {
				return
			}
		}
	}
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
	defer p.Spawns.settled(p.Path)
	draft, cut, spent, err := p.converse(ctx, news, wake)
	if err != nil {
		return Episode{Spent: spent}, fmt.Errorf("plan %s: %w", p.Path, err)
	}
	e := Episode{Seen: news.Main, Cut: cut, Spent: spent}
	if cut != "" && !draft.changes() {
		return e, nil // nothing was decided: the cursor stays
	}
	next := planState{Seen: news.Main, Mark: wake.Mark, Scratchpad: draft.scratchpad, Judged: news.state.Judged}
	if draft.finished && p.Review != nil {
		if err := p.review(ctx, news, draft, &next); err != nil {
			return e, fmt.Errorf("review %s: %w", p.Path, err)
		}
	}
	e.Created, e.Spawned, e.Withdrawn, e.Finished, e.Findings = draft.created, draft.spawned, draft.withdrawn, draft.finished, next.Findings
	e.Understood = draft.understood != ""
	next.Made, next.Gone = draft.made(), draft.gone()
	if next.Goal, err = p.goalBlob(news.Main, draft); err != nil {
		return e, fmt.Errorf("plan %s: %w", p.Path, err)
	}
	if !draft.changes() {
		return e, p.writeState(ctx, news.state, next, nil)
	}
	next.Plan, err = p.composePlan(ctx, news.Main, draft, wake.Claim)
	if err != nil {
		return e, fmt.Errorf("plan %s: %w", p.Path, err)
	}
	if next.Plan.IsZero() {
		return e, p.writeState(ctx, news.state, next, nil)
	}
	if err := p.submitPlan(ctx, news.state, &next); err != nil {
		return e, fmt.Errorf("plan %s: %w", p.Path, err)
	}
	settled, err := p.settle(ctx, next)
	if settled.Refused != "" {
		return settled, err
	}
	e.Entry, e.Landed = settled.Entry, settled.Landed
	return e, err
}

// goalBlob is GOAL.md as the planner leaves it: another one is somebody's edit.
func (p *Planner) goalBlob(main git.Hash, d *draft) (git.Hash, error) {
	files, err := d.files()
	if err != nil {
		return "", err
	}
	if text, wrote := files[GoalPath(p.Path)]; wrote {
		return p.Repo.WriteBlob([]byte(text))
	}
	entry, err := p.lookup(main, GoalPath(p.Path))
	return entry.Hash, err
}

// review asks whether the goal is met, as the planner says. If not, the turn
// ends without it, and what was found is kept for the next.
func (p *Planner) review(ctx context.Context, n News, d *draft, next *planState) error {
	r, err := p.Review(ctx, Proposal{Planner: p.Path, Goal: n.Goal, Summary: d.summary, Main: n.Main, Rounds: next.Judged})
	if err != nil {
		return err
	}
	if r.Met {
		if r.Note != "" {
			d.handoff.Notes = append(d.handoff.Notes, r.Note)
		}
		return nil
	}
	d.finished = false
	next.Findings, next.Judged = cutDefault(cut(strings.TrimSpace(r.Findings), maxScratchpad), "nothing was said"), next.Judged+1
	return nil
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
				next, fits := state, false
				if try < maxRounds && reason(decision) != journal.ReasonSuperseded {
					if next, fits, err = p.replan(ctx, state); err != nil {
						return Episode{}, err
					}
				}
				if !fits {
					return p.dropPlan(ctx, state, decision)
				}
				state = next
				continue
			}
			if decision.Landed != nil {
				landed = *decision.Landed
			}
		}
		done := state
		done.Plan, done.Before, done.MarkBefore = "", "", ""
		if err := p.writeState(ctx, state, done, nil); err != nil {
			return Episode{}, err
		}
		zerolog.Ctx(ctx).Info().Str("change", entry).Str("commit", string(landed)).Msg("plan landed")
		return Episode{Seen: state.Seen, Entry: entry, Landed: landed, Settled: true}, nil
	}
}

// dropPlan forgets a plan that cannot land, and the scratchpad that speaks of it:
// the events it answered are planned for again, by whoever lives then.
func (p *Planner) dropPlan(ctx context.Context, state planState, d journal.Decision) (Episode, error) {
	back, err := p.beforePlan(state)
	if err != nil {
		return Episode{}, err
	}
	why := strings.TrimSpace(fmt.Sprintf("%s %s %s", d.State, reason(d), git.OneLine(strings.Join(d.Paths, ", "))))
	if d.Detail != nil {
		why += ": " + git.OneLine(*d.Detail)
	}
	back.Refused = why
	zerolog.Ctx(ctx).Warn().Str("change", d.Entry).Str("state", why).Msg("plan refused")
	return Episode{Seen: back.Seen, Refused: why, Settled: true}, p.writeState(ctx, state, back, nil)
}

// beforePlan is the planner's state before it made the plan that is on its way.
func (p *Planner) beforePlan(state planState) (planState, error) {
	for at := state.commit; !at.IsZero(); {
		s, err := p.stateAt(at)
		if err != nil || s.Plan.IsZero() {
			return s, err
		}
		commit, err := p.Repo.Commit(at)
		if err != nil {
			return planState{}, err
		}
		if len(commit.Parents) == 0 || commit.Parents[0] == s.Plan { // its first turn: nothing came before
			break
		}
		at = commit.Parents[0]
	}
	return planState{}, nil
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
