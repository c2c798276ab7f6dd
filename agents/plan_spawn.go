package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"greenward/agents/model"
	"greenward/internal/git"
)

// DesignDir holds the decisions that planners put on record, one file each, whose
// first line names the planner that decided.
const DesignDir = "docs/design"

// understoodHeading begins what a planner wrote below the goal.
const understoodHeading = "## How it was understood"

// Slice is the part of a goal that a planner gives to a planner of its own.
type Slice struct {
	ID    string
	Title string
	Text  string // of its GOAL.md
}

// Caps bound the tree of planners of one run; a zero field takes its default.
type Caps struct {
	Depth   int // levels, the root's included; default 4
	Breadth int // open slices of one planner; default 12
	Total   int // planners that a run spawns in all its life; default 200
	Hourly  int // planners that a run spawns in an hour; default 60
}

func (c Caps) withDefaults() Caps {
	for _, one := range []struct {
		field *int
		value int
	}{{&c.Depth, 4}, {&c.Breadth, 12}, {&c.Total, 200}, {&c.Hourly, 60}} {
		if *one.field == 0 {
			*one.field = one.value
		}
	}
	return c
}

// Spawns counts planners that were decided on and have not landed, so that two
// planners which decide at once share one allowance. It is safe for concurrent
// use; a nil one counts nothing.
type Spawns struct {
	mu      sync.Mutex
	pending map[string]int // by the planner that spawns
}

func (s *Spawns) add(planner string, n int) (others int) {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, count := range s.pending {
		if name != planner {
			others += count
		}
	}
	if s.pending == nil {
		s.pending = map[string]int{}
	}
	s.pending[planner] += n
	return others
}

func (s *Spawns) settled(planner string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, planner)
}

const spawnSchema = `{"type":"object","required":["title","goal"],"additionalProperties":false,"properties":{
"title":{"type":"string","description":"one line: what the slice is"},
"goal":{"type":"string","description":"markdown, complete in itself: what must hold at the end, what is in the slice and what is not, the decisions that bind it, how it will be judged"}}}`

const decideSchema = `{"type":"object","required":["name","text"],"additionalProperties":false,"properties":{
"name":{"type":"string","description":"a short name, such as wire-format"},
"text":{"type":"string","description":"markdown: what is decided and why; at most 200 lines"}}}`

const understandSchema = `{"type":"object","required":["assumptions","non_goals","success","measures"],"additionalProperties":false,"properties":{
"assumptions":{"type":"array","items":{"type":"string"},"description":"what you take for granted where the goal is silent"},
"non_goals":{"type":"array","items":{"type":"string"},"description":"what one could take for part of it and you leave out"},
"success":{"type":"array","items":{"type":"string"},"description":"how it will be judged, as things that can be looked at"},
"measures":{"type":"array","items":{"type":"string"},"description":"what is measured: performance, size, limits; say so if nothing is"}}}`

func (d *draft) spawnTool() Tool {
	return Tool{
		Def: model.ToolDef{
			Name: "spawn_planner", Parameters: json.RawMessage(spawnSchema),
			Description: "Gives a slice of your goal to a planner of its own, who owns it wholly: it plans the tasks there, and its one hand-off comes to you. Withdraw it like a task.",
		},
		Run: d.spawn,
	}
}

func (d *draft) spawn(ctx context.Context, call model.ToolCall) (Result, error) {
	var in struct{ Title, Goal string }
	if err := call.Decode(&in); err != nil {
		return Result{}, err
	}
	title := git.OneLine(in.Title)
	if err := d.mayPlan(); err != nil {
		return Result{}, err
	}
	switch {
	case title == "" || len(title) > maxTitle:
		return Result{}, fmt.Errorf("title: one line of at most %d bytes is wanted", maxTitle)
	case strings.TrimSpace(in.Goal) == "" || len(in.Goal) > maxTaskFile:
		return Result{}, fmt.Errorf("goal: a text of at most %d bytes is wanted; its planner knows nothing else", maxTaskFile)
	}
	for _, s := range d.spawned {
		if strings.EqualFold(s.Title, title) {
			return Result{}, fmt.Errorf("%s has the same title", s.ID)
		}
	}
	refusal, err := d.p.maySpawn(ctx, d)
	if err != nil {
		return Result{}, &harnessError{err}
	}
	if refusal != "" {
		return Result{}, errors.New("no planner was spawned: " + refusal)
	}
	slug, err := Slug(title, d.p.Rand)
	if err != nil {
		return Result{}, &harnessError{err}
	}
	s := Slice{ID: d.p.Path + "/" + slug, Title: title}
	if err := CheckID(s.ID); err != nil {
		return Result{}, fmt.Errorf("no planner was spawned: %w", err)
	}
	s.Text = fmt.Sprintf("# %s\n\n%s\n\nAsked by the planner of %s.\n", title, strings.TrimSpace(strings.ToValidUTF8(in.Goal, "\ufffd")), d.p.Path)
	d.spawned = append(d.spawned, s)
	return Result{Text: "spawned a planner for " + s.ID + "; it begins when you end your turn"}, nil
}

// maySpawn is why one more planner is refused, in words for the model; empty: it
// is allowed. What counts stands in git: refusals hold after a restart too.
func (p *Planner) maySpawn(ctx context.Context, d *draft) (string, error) {
	caps := p.Caps.withDefaults()
	if depth := strings.Count(p.Path, "/") + 2; depth > caps.Depth {
		return fmt.Sprintf("the tree would be %d levels deep, and %d are allowed; write tasks yourself", depth, caps.Depth), nil
	}
	open := len(d.spawned)
	for _, g := range d.board.Goals {
		if g.Planner != p.Path {
			open++
		}
	}
	if open >= caps.Breadth {
		return fmt.Sprintf("%d slices of yours are open, and no more are allowed at once; wait for their hand-offs, or write tasks yourself", open), nil
	}
	spawned, err := SpawnedSince(ctx, p.Repo, d.main, RunOf(p.Path))
	if err != nil {
		return "", err
	}
	pending := len(d.spawned) + p.Spawns.add(p.Path, 1)
	if all := len(spawned) + pending; all >= caps.Total {
		return fmt.Sprintf("this run has spawned %d planners, and no more are allowed; write tasks yourself", all), nil
	}
	lately := pending
	for _, when := range spawned {
		if p.Now().Sub(when) < time.Hour {
			lately++
		}
	}
	if lately >= caps.Hourly {
		return fmt.Sprintf("this run has spawned %d planners within an hour, and no more are allowed; write tasks yourself, or try again later", lately), nil
	}
	return "", nil
}

// SpawnedSince is when each planner below the root of a run was spawned, as
// main's history tells it.
func SpawnedSince(ctx context.Context, repo *git.Repo, main git.Hash, run string) ([]time.Time, error) {
	hashes, err := repo.RevList(ctx, []git.Hash{main}, nil, "--grep=^"+keySpawned+": "+run+"/", "--extended-regexp")
	if err != nil {
		return nil, fmt.Errorf("count the planners of %s: %w", run, err)
	}
	var all []time.Time
	for _, hash := range hashes {
		c, err := repo.Commit(hash)
		if err != nil {
			return nil, fmt.Errorf("count the planners of %s: %w", run, err)
		}
		for _, id := range c.Trailers().All(keySpawned) {
			if RunOf(id) == run {
				all = append(all, c.Committer.When)
			}
		}
	}
	return all, nil
}

// decide puts a decision on record. Another planner's is not touched: two owners
// of one question give two answers.
func (d *draft) decide(call model.ToolCall) (Result, error) {
	var in struct{ Name, Text string }
	if err := call.Decode(&in); err != nil {
		return Result{}, err
	}
	name := strings.TrimSuffix(strings.TrimSpace(in.Name), ".md")
	if err := checkPart(name); err != nil {
		return Result{}, fmt.Errorf("name: %w", err)
	}
	if lines := strings.Count(in.Text, "\n") + 1; strings.TrimSpace(in.Text) == "" || lines > 200 {
		return Result{}, fmt.Errorf("text: %d lines; 1 to 200 are taken", lines)
	}
	path := DesignDir + "/" + name + ".md"
	if had, err := d.p.Repo.File(d.main, path); err == nil {
		if owner := designOwner(string(had)); owner != d.p.Path {
			return Result{}, fmt.Errorf("not put on record: %s was decided by %s. Follow it; if it is wrong, say so in your hand-off, or to its owner's tasks", path, orElse(owner, "a person"))
		}
	} else if !errors.Is(err, git.ErrNotFound) {
		return Result{}, &harnessError{err}
	}
	d.designs[path] = designMark + d.p.Path + designEnd + "\n" + strings.TrimSpace(strings.ToValidUTF8(in.Text, "\ufffd")) + "\n"
	return Result{Text: "on record in " + path + " when you end your turn; name that path in the tasks that depend on it"}, nil
}

const (
	designMark = "<!-- decided by "
	designEnd  = " -->"
)

func designOwner(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	owner, ok := strings.CutPrefix(strings.TrimSpace(first), designMark)
	if owner, ended := strings.CutSuffix(owner, designEnd); ok && ended {
		return owner
	}
	return ""
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// describeDesigns lists the decisions on record and who owns each.
func describeDesigns(repo *git.Repo, main git.Hash) string {
	paths, err := repo.Files(main, DesignDir)
	if err != nil {
		return "" // there are none
	}
	var b strings.Builder
	for _, path := range paths[:min(len(paths), 100)] {
		text, err := repo.File(main, path)
		if err != nil {
			continue // listed a moment ago at the same commit: no text
		}
		fmt.Fprintf(&b, "- `%s`, decided by %s\n", path, orElse(designOwner(string(text)), "a person"))
	}
	return b.String()
}

// mayPlan refuses plans for a goal whose reading nobody could object to yet.
func (d *draft) mayPlan() error {
	if !d.p.Understand || Understood(d.goal) {
		return nil
	}
	if d.understood == "" {
		return errors.New("not yet: first call `understand`, so that the person who asked can see how you read the goal")
	}
	if d.p.Confirm && !Understood(d.goal) {
		return errors.New("not yet: the person who asked wants to look at your reading first; end with `wait`")
	}
	return nil
}

// Understood reports whether a GOAL.md says how its planner reads it.
func Understood(goal string) bool { return strings.Contains(goal, "\n"+understoodHeading) }

// asked is a GOAL.md without what its planner wrote below it.
func asked(goal string) string {
	text, _, _ := strings.Cut(goal, "\n"+understoodHeading)
	return strings.TrimRight(text, "\n") + "\n"
}

func (d *draft) understand(call model.ToolCall) (Result, error) {
	var in struct {
		Assumptions texts `json:"assumptions"`
		NonGoals    texts `json:"non_goals"`
		Success     texts `json:"success"`
		Measures    texts `json:"measures"`
	}
	if err := call.Decode(&in); err != nil {
		return Result{}, err
	}
	if Understood(d.goal) {
		return Result{}, errors.New("it stands below the goal already, and may have been corrected there: follow what it says now")
	}
	if len(in.Success) == 0 {
		return Result{}, errors.New("success: at least one thing that can be looked at is wanted")
	}
	var b strings.Builder
	b.WriteString(understoodHeading + "\n")
	for _, part := range []struct {
		title string
		lines texts
	}{{"Assumptions", in.Assumptions}, {"Non-goals", in.NonGoals}, {"Judged by", in.Success}, {"Measured", in.Measures}} {
		b.WriteString("\n" + part.title + ":\n\n")
		lines := slices.DeleteFunc(slices.Clone(part.lines), func(s string) bool { return git.OneLine(s) == "" })
		if len(lines) == 0 {
			lines = texts{"none named"}
		}
		for _, line := range lines[:min(len(lines), 30)] {
			b.WriteString("- " + cut(git.OneLine(line), 500) + "\n")
		}
	}
	d.understood = b.String()
	return Result{Text: "written below the goal when you end your turn"}, nil
}
