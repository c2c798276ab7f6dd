package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"greenward/agents/model"
	"greenward/agents/prompts"
	"greenward/green"
	"greenward/green/accept"
	"greenward/internal/git"
)

// ErrNoFix says that the fixup agent found no repair that may be taken.
var ErrNoFix = errors.New("no repair")

// maxFixTries is how often a repair that does not pass is sent back.
const maxFixTries = 4

// Fixup repairs a snapshot: it implements green.Fixer with a model. What it gives
// is a proposal; green verifies it like any other tree.
type Fixup struct {
	Repo       *git.Repo        // required: the hub
	Agent      string           // required: name of workspace and transcript
	Client     model.Client     // required
	Workspaces *Workspaces      // required
	Now        func() time.Time // required
	Model      string           // empty: the client's
	Effort     string
	Limits     Limits      // of one repair
	Env        []string    // environment of commands in the workspace, whole
	MaxLines   int         // most lines added and removed; 0: 400
	MaxFiles   int         // most files touched; 0: 20
	Transcript *Transcript // nil: none
}

// fixupRun is the run whose directory holds workspaces of repairs.
const fixupRun = "green"

// Fix mends a tree in a workspace of its own. No repair is ErrNoFix, with the reason.
func (f *Fixup) Fix(ctx context.Context, in green.FixInput) (result green.FixResult, err error) {
	ctx = zerolog.Ctx(ctx).With().Str("agent", f.Agent).Logger().WithContext(ctx)
	by := harness(f.Now())
	commit := git.CommitInput{Tree: in.Tree, Author: by, Committer: by, Message: "the tree to mend\n"}
	if !in.Hidden {
		commit.Parents = []git.Hash{in.Commit}
	}
	base, err := f.Repo.WriteCommit(commit)
	if err != nil {
		return result, fmt.Errorf("mend %s: %w", in.Commit.Short(), err)
	}
	ws, err := f.Workspaces.Open(ctx, WorkspaceInput{Run: fixupRun, Agent: f.Agent, Task: fixupRun + "/" + f.Agent, Base: base})
	if err != nil {
		return result, fmt.Errorf("mend %s: %w", in.Commit.Short(), err)
	}
	defer func() {
		if err == nil {
			err = ws.Remove()
			return
		}
		// What was refused, or not finished, is kept for a person to look at.
		const patience = time.Minute
		cleanup, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer stop()
		_, cleanErr := ws.Discard(cleanup)
		err = errors.Join(err, cleanErr)
	}()
	if in.Hidden { // what is not in the tree is in the hub's objects all the same
		if err := ws.Seal(ctx); err != nil {
			return result, fmt.Errorf("mend %s: %w", in.Commit.Short(), err)
		}
	}
	r := &repair{Fixup: f, in: in, base: base, ws: ws}
	err = r.converse(ctx)
	result.Refused = r.refused
	if err != nil {
		return result, fmt.Errorf("mend %s: %w", in.Commit.Short(), err)
	}
	tree, err := r.transplant(ctx)
	if err != nil {
		return result, fmt.Errorf("mend %s: %w", in.Commit.Short(), err)
	}
	zerolog.Ctx(ctx).Info().Str("commit", string(in.Commit)).Msg("repair proposed")
	return green.FixResult{Tree: tree, Summary: r.summary, Agent: f.Agent, Model: r.model, Refused: r.refused}, nil
}

// repair is one fixup agent at one tree.
type repair struct {
	*Fixup
	in      green.FixInput
	base    git.Hash
	ws      *Workspace
	tries   int
	tree    git.Hash // of the repair that was taken
	summary string
	gaveUp  string
	model   string
	refused []accept.Refusal // rules that proposals broke
}

func (r *repair) converse(ctx context.Context) (err error) {
	var checks []prompts.Check
	for _, check := range r.in.Checks {
		if check.Run != "" {
			checks = append(checks, prompts.Check{Name: check.Name, Run: check.Run, Required: check.Required})
		}
	}
	system, err := prompts.Render("fixup", prompts.Facts{Agent: r.Agent, Checks: checks, Paths: r.in.Protected})
	if err != nil {
		return err
	}
	box, err := openToolbox(toolboxInput{Workspace: r.ws, Env: r.Env, Limits: r.Limits, Transcript: r.Transcript})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	hands, err := box.all()
	if err != nil {
		return err
	}
	text, err := r.describe(ctx)
	if err != nil {
		return err
	}
	loop := Loop{
		Client: r.Client, Model: r.Model, Effort: r.Effort, System: system, Limits: r.Limits, Transcript: r.Transcript, Now: r.Now,
		Tools: append(hands, r.submitFix(), r.giveUp()), Finals: "`submit_fix` or `give_up`",
	}
	if err := r.Transcript.Add(Event{Kind: EventStart, Role: "fixup", Prompt: system.Hash, Model: r.Model, Text: string(r.in.Commit)}); err != nil {
		return err
	}
	cut, err := loop.Run(ctx, text)
	if err != nil {
		return err
	}
	r.model = loop.answeredBy
	why := cmp.Or(string(cut), r.gaveUp)
	if err := r.Transcript.Add(Event{Kind: EventEnd, Outcome: why, Text: r.summary}); err != nil {
		return err
	}
	if why != "" {
		return fmt.Errorf("%w: %s", ErrNoFix, why)
	}
	return nil
}

// describe is the evidence: what fails, how, and the changes under suspicion.
func (r *repair) describe(ctx context.Context) (string, error) {
	var b strings.Builder
	b.WriteString("These checks fail on the files before you:\n")
	for i, failing := range r.in.Failing {
		fmt.Fprintf(&b, "\n## %s\n\n", failing.Check)
		if i < len(r.in.Checks) && r.in.Checks[i].Run != "" {
			fmt.Fprintf(&b, "`%s`\n\n", r.in.Checks[i].Run)
		}
		if failing.Why != "" {
			b.WriteString(failing.Why + "\n\n")
		}
		if len(failing.Failing) > 0 {
			b.WriteString("Failing tests: " + strings.Join(failing.Failing[:min(len(failing.Failing), 50)], ", ") + "\n\n")
		}
		if failing.Output != "" {
			b.WriteString("```\n" + clip(failing.Output, 12<<10) + "\n```\n")
		} else {
			b.WriteString("Its output was not kept; run it.\n")
		}
	}
	if len(r.in.Refused) > 0 {
		b.WriteString("\nEarlier repairs of this were refused:\n")
		for _, why := range r.in.Refused[:min(len(r.in.Refused), 10)] {
			b.WriteString("- " + git.OneLine(why) + "\n")
		}
	}
	for _, culprit := range r.in.Culprits[:min(len(r.in.Culprits), 3)] {
		commit, err := r.Repo.Commit(culprit)
		if err != nil {
			return "", err
		}
		patch, err := r.Repo.Diff(ctx, commit.Parent(), culprit)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n## Under suspicion: commit %s\n\n%s\n\n```\n%s\n```\n", culprit, git.Quote(clip(commit.Message, 2000)), clip(string(patch), 16<<10))
	}
	return b.String(), nil
}

// clip keeps the beginning and the end of a long text; the end tells more.
func clip(text string, most int) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) <= most {
		return text
	}
	head := strings.ToValidUTF8(text[:most/3], "")
	tail := strings.ToValidUTF8(text[len(text)-2*most/3:], "")
	return head + fmt.Sprintf("\n… %d bytes left out …\n", len(text)-len(head)-len(tail)) + tail
}

func (r *repair) submitFix() Tool {
	return Tool{
		Def: model.ToolDef{
			Name: "submit_fix", Description: "Ends the repair: the files of the working tree are proposed as they are.",
			Parameters: json.RawMessage(`{"type":"object","required":["summary"],"additionalProperties":false,"properties":{"summary":{"type":"string","description":"one sentence on the cause, one on the cure"}}}`),
		},
		Run: r.submit,
	}
}

func (r *repair) giveUp() Tool {
	return Tool{
		Def: model.ToolDef{
			Name: "give_up", Description: "Ends the repair without one.",
			Parameters: json.RawMessage(`{"type":"object","required":["reason"],"additionalProperties":false,"properties":{"reason":{"type":"string"}}}`),
		},
		Run: func(_ context.Context, call model.ToolCall) (Result, error) {
			var in struct {
				Reason string `json:"reason"`
			}
			if err := call.Decode(&in); err != nil {
				return Result{}, err
			}
			r.gaveUp = cut("the agent gave up: "+git.OneLine(in.Reason), maxTrailer)
			return Result{Text: "given up", End: true}, nil
		},
	}
}

// submit takes a repair that breaks no rule and passes what failed. One that does
// not is sent back, a few times.
func (r *repair) submit(ctx context.Context, call model.ToolCall) (Result, error) {
	var in struct {
		Summary string `json:"summary"`
	}
	if err := call.Decode(&in); err != nil {
		return Result{}, err
	}
	if strings.TrimSpace(in.Summary) == "" {
		return Result{}, errors.New("summary: one sentence on the cause and one on the cure are wanted")
	}
	tree, err := r.ws.Snapshot(ctx)
	if err != nil {
		return Result{}, &harnessError{err}
	}
	refusal, err := r.vet(ctx, tree)
	if err == nil && refusal == "" {
		refusal, err = r.try(ctx)
	}
	if err != nil {
		return Result{}, &harnessError{err}
	}
	if refusal == "" {
		r.tree, r.summary = tree, cut(git.OneLine(in.Summary), maxTrailer)
		return Result{Text: "submitted", End: true}, nil
	}
	r.tries++
	if r.tries >= maxFixTries {
		first, _, _ := strings.Cut(refusal, "\n")
		r.gaveUp = cut(fmt.Sprintf("%d proposals were refused, the last because %s", r.tries, git.OneLine(first)), maxTrailer)
		return Result{Text: "refused for the last time: " + refusal, End: true}, nil
	}
	return Result{Text: "refused: " + refusal}, nil
}

// try runs what failed on the files as they are.
func (r *repair) try(ctx context.Context) (string, error) {
	for _, check := range r.in.Checks {
		if check.Run == "" {
			continue
		}
		result, output, err := r.ws.runShell(ctx, r.Env, check.Run, cmp.Or(check.Timeout, 15*time.Minute), r.Transcript)
		if err != nil {
			return "", fmt.Errorf("run check %s: %w", check.Name, err)
		}
		if !result.OK() {
			return fmt.Sprintf("check %s still fails (%s):\n%s", check.Name, result, output), nil
		}
	}
	return "", nil
}

// transplant writes the repair's objects into the hub, so that its tree is there
// without any ref.
func (r *repair) transplant(ctx context.Context) (git.Hash, error) {
	clone := r.ws.Repo()
	paths, err := clone.ChangedPaths(ctx, r.base, r.tree)
	if err != nil {
		return "", err
	}
	var edits []git.Edit
	for _, path := range paths {
		entry, err := clone.Lookup(r.tree, path)
		if errors.Is(err, git.ErrNotFound) {
			edits = append(edits, git.Edit{Path: path})
			continue
		}
		if err != nil {
			return "", err
		}
		data, err := clone.Blob(entry.Hash)
		if err != nil {
			return "", err
		}
		if _, err := r.Repo.WriteBlob(data); err != nil {
			return "", err
		}
		edits = append(edits, git.Edit{Path: path, Hash: entry.Hash, Mode: entry.Mode})
	}
	// Removals first: a directory may have become a file.
	slices.SortStableFunc(edits, func(a, b git.Edit) int { return cmp.Compare(len(a.Hash), len(b.Hash)) })
	return r.Repo.EditTree(r.in.Tree, edits)
}
