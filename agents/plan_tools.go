package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"greenward/agents/model"
	"greenward/agents/prompts"
	"greenward/internal/git"
)

const maxScratchpad = 32 << 10

// draft is what an episode has decided so far. Nothing of it is in git yet.
type draft struct {
	p          *Planner
	board      Board
	created    []Task
	keys       map[string]string // the model's own names of new tasks → ids
	spawned    []Slice
	withdrawn  []string          // paths
	designs    map[string]string // decisions on record, by path
	understood string            // what is written below the goal; empty: nothing is
	main       git.Hash          // what it plans from
	goal       string            // GOAL.md there
	scratchpad string
	untouched  bool // nothing was ever done for the goal
	finished   bool
	summary    string
	handoff    Handoff
	awaits     string // what the caller says is on its way besides tasks
	model      string
}

func (d *draft) changes() bool {
	return d.finished || d.understood != "" || len(d.created)+len(d.spawned)+len(d.withdrawn)+len(d.designs) > 0
}

// files is what the plan writes, by path.
func (d *draft) files() (map[string]string, error) {
	files := map[string]string{}
	for _, task := range d.created {
		text, err := FormatTask(task)
		if err != nil {
			return nil, err
		}
		files[TaskPath(task.ID)] = string(text)
	}
	for _, slice := range d.spawned {
		files[GoalPath(slice.ID)] = slice.Text
	}
	maps.Copy(files, d.designs)
	if d.understood != "" && !d.finished {
		files[GoalPath(d.p.Path)] = asked(d.goal) + "\n" + d.understood
	}
	return files, nil
}

// made is the ids of what it creates.
func (d *draft) made() []string {
	var ids []string
	for _, t := range d.created {
		ids = append(ids, t.ID)
	}
	for _, s := range d.spawned {
		ids = append(ids, s.ID)
	}
	return ids
}

// gone is the ids of what it withdraws.
func (d *draft) gone() []string {
	var ids []string
	for _, path := range d.withdrawn {
		rest := strings.TrimPrefix(strings.TrimSuffix(path, ".md"), "tasks/"+d.p.Path+"/")
		first, _, _ := strings.Cut(rest, "/")
		ids = append(ids, d.p.Path+"/"+first)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// message is the commit message of new and withdrawn tasks.
func (d *draft) message(path string) git.Message {
	m := git.Message{Subject: cut(fmt.Sprintf("plan %s: %d new tasks", path, len(d.created)), maxSubject)}
	var lines []string
	for _, s := range d.spawned {
		lines = append(lines, s.ID+": a planner of its own: "+s.Title)
	}
	for name := range d.designs {
		lines = append(lines, "decided: "+name)
	}
	slices.Sort(lines)
	for _, t := range d.created {
		lines = append(lines, t.ID+": "+t.Title)
	}
	for _, path := range d.withdrawn {
		lines = append(lines, "withdrawn: "+path)
	}
	m.Body = cut(git.Quote(strings.Join(lines, "\n")), maxBody)
	return m
}

// converse holds the conversation of one episode, in a workspace of main's tip
// that the planner only reads.
func (p *Planner) converse(ctx context.Context, n News, wake Wake) (d *draft, cut Cut, spent model.Usage, err error) {
	system, err := words(p.Repo, n.Main, p.Transcript, "planner", prompts.Facts{
		Agent: p.Agent, Run: RunOf(p.Path), Planner: p.Path, Checks: p.Checks, Workers: p.Workers, Slice: RunOf(p.Path) != p.Path,
	})
	if err != nil {
		return nil, "", spent, err
	}
	ws, err := p.Workspaces.Open(ctx, WorkspaceInput{Run: RunOf(p.Path), Agent: p.Agent, Task: p.Path, Claim: wake.Claim.ID, Base: n.Main})
	if err != nil {
		return nil, "", spent, err
	}
	defer func() { err = errors.Join(err, ws.Remove()) }()
	box, err := openToolbox(toolboxInput{Workspace: ws, Limits: p.Limits, Transcript: p.Transcript})
	if err != nil {
		return nil, "", spent, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	readers, err := box.readers()
	if err != nil {
		return nil, "", spent, err
	}
	d = &draft{p: p, main: n.Main, goal: n.Goal, awaits: wake.Awaits, board: n.Board, keys: map[string]string{}, designs: map[string]string{}, scratchpad: n.state.Scratchpad, untouched: n.Seen.IsZero() && len(n.Handoffs) == 0}
	loop := Loop{
		Client: p.Client, Model: p.Model, Effort: p.Effort, System: system, Limits: p.Limits, Transcript: p.Transcript, Now: p.Now,
		Tools: append(readers, d.tools()...), Finals: "`wait` or `finish`",
	}
	if err := p.Transcript.Add(Event{Kind: EventStart, Role: "planner", Task: p.Path, Prompt: system.Hash, Model: p.Model}); err != nil {
		return nil, "", spent, err
	}
	cut, err = loop.Run(ctx, p.describe(n, wake))
	d.model = loop.answeredBy
	if cut != "" {
		d.finished = false
	}
	return d, loop.because(cut), loop.Spent(), errors.Join(err, p.Transcript.Add(Event{Kind: EventEnd, Text: d.summary, Outcome: string(cut)}))
}

const createSchema = `{"type":"object","required":["tasks"],"additionalProperties":false,"properties":{"tasks":{"type":"array","minItems":1,"maxItems":100,"items":{
"type":"object","required":["title","body"],"additionalProperties":false,"properties":{
"title":{"type":"string","description":"one line, imperative"},
"body":{"type":"string","description":"markdown: intent, where to look, what must hold afterwards, what is out of bounds, how it will be judged"},
"key":{"type":"string","description":"a name of your own, for 'after' of other new tasks"},
"priority":{"type":"integer","minimum":0,"maximum":9,"description":"0 first, default 5"},
"paths":{"type":"array","items":{"type":"string"},"description":"globs that the work should stay in"},
"after":{"type":"array","items":{"type":"string"},"description":"ids of open tasks, or keys of new ones, that must be finished first"},
"acceptance":{"type":"array","items":{"type":"string"},"description":"shell commands that must pass, run at the top of the repository"},
"size":{"type":"string"}}}}}}`

func (d *draft) tools() []Tool {
	define := func(name, description, schema string, run func(model.ToolCall) (Result, error)) Tool {
		return Tool{
			Def: model.ToolDef{Name: name, Description: description, Parameters: json.RawMessage(schema)},
			Run: func(_ context.Context, call model.ToolCall) (Result, error) { return run(call) },
		}
	}
	list := []Tool{
		d.spawnTool(), define("decide", "Puts a decision on record in "+DesignDir+", where code and other planners can refer to it. One decision has one owner: a name that another planner decided is refused.", decideSchema, d.decide),
		define("create_tasks", "Writes new task files; all of them, or none when one is refused. They reach the workers when you end with wait or finish.", createSchema, d.create),
		define("withdraw_tasks", "Removes open task files of yours. Work that is under way on them will not land.",
			`{"type":"object","required":["ids"],"additionalProperties":false,"properties":{"ids":{"type":"array","items":{"type":"string"},"minItems":1}}}`, d.withdraw),
		define("scratchpad", "Replaces your scratchpad, whole. It is all that you remember at the next wake-up besides what the repository shows.",
			`{"type":"object","required":["text"],"additionalProperties":false,"properties":{"text":{"type":"string"}}}`, d.note),
		define("wait", "Ends this turn. You are woken when hand-offs or other news arrive.",
			`{"type":"object","additionalProperties":false,"properties":{"reason":{"type":"string"}}}`, d.wait),
		define("finish", "Ends the goal: it is met in full, and nothing of yours is open.",
			`{"type":"object","required":["summary"],"additionalProperties":false,"properties":{"summary":{"type":"string","description":"one line: what was reached"},`+
				`"notes":{"type":"array","items":{"type":"string"}},"concerns":{"type":"array","items":{"type":"string"}}}}`, d.finish),
	}
	if d.p.Understand {
		list = append(list, define("understand", "Writes into GOAL.md how you read the goal, for the person who asked. Once, before anything is planned.", understandSchema, d.understand))
	}
	return list
}

// newTask is a task as the model writes it.
type newTask struct {
	Title      string `json:"title"`
	Body       string `json:"body"`
	Key        string `json:"key"`
	Priority   *int   `json:"priority"`
	Paths      texts  `json:"paths"`
	After      texts  `json:"after"`
	Acceptance texts  `json:"acceptance"`
	Size       string `json:"size"`
}

func (d *draft) create(call model.ToolCall) (Result, error) {
	var in struct {
		Tasks []newTask `json:"tasks"`
	}
	if err := call.Decode(&in); err != nil {
		return Result{}, err
	}
	most := d.p.MaxTasks
	if most == 0 {
		most = 200
	}
	if err := d.mayPlan(); err != nil {
		return Result{}, err
	}
	switch {
	case len(in.Tasks) == 0:
		return Result{}, errors.New("tasks: at least one is wanted")
	case len(d.created)+len(in.Tasks) > most:
		return Result{}, fmt.Errorf("that would be %d new tasks in this turn; at most %d are taken. Create the most useful ones now and the rest when hand-offs arrive",
			len(d.created)+len(in.Tasks), most)
	}
	batch, faults, err := d.batch(in.Tasks)
	if err != nil {
		return Result{}, &harnessError{err}
	}
	if len(faults) > 0 {
		return Result{}, fmt.Errorf("no task was created:\n- %s", strings.Join(faults, "\n- "))
	}
	var lines []string
	for i, t := range batch {
		if in.Tasks[i].Key != "" {
			d.keys[in.Tasks[i].Key] = t.ID
		}
		lines = append(lines, t.ID)
	}
	d.created = append(d.created, batch...)
	return Result{Text: fmt.Sprintf("created %d tasks:\n%s", len(batch), strings.Join(lines, "\n"))}, nil
}

// batch makes tasks of what the model wrote, and lists all that is wrong at once.
func (d *draft) batch(in []newTask) (batch []Task, faults []string, err error) {
	keys, titles := map[string]string{}, map[string]string{}
	for _, t := range append(slices.Clone(d.board.Tasks), d.created...) {
		titles[strings.ToLower(t.Title)] = t.ID
	}
	for i, n := range in {
		slug, err := Slug(n.Title, d.p.Rand)
		if err != nil {
			return nil, nil, err
		}
		t := Task{
			ID: d.p.Path + "/" + slug, Title: strings.TrimSpace(n.Title), Priority: DefaultPriority, Paths: n.Paths,
			Acceptance: n.Acceptance, Size: strings.TrimSpace(n.Size), Body: n.Body,
		}
		if n.Priority != nil {
			t.Priority = *n.Priority
		}
		if other, taken := titles[strings.ToLower(t.Title)]; taken {
			faults = append(faults, fmt.Sprintf("task %d %q: %s has the same title", i+1, n.Title, other))
		}
		titles[strings.ToLower(t.Title)] = t.ID
		if strings.TrimSpace(n.Body) == "" {
			faults = append(faults, fmt.Sprintf("task %d %q: an empty body; a worker knows nothing else", i+1, n.Title))
		}
		if n.Key != "" {
			if _, twice := keys[n.Key]; twice || d.keys[n.Key] != "" {
				faults = append(faults, fmt.Sprintf("task %d %q: key %q is taken", i+1, n.Title, n.Key))
			}
			keys[n.Key] = t.ID
		}
		batch = append(batch, t)
	}
	for i, n := range in {
		faults = append(faults, d.resolve(&batch[i], n.After, keys)...)
		if _, err := FormatTask(batch[i]); err != nil {
			faults = append(faults, fmt.Sprintf("task %d %q: %v", i+1, n.Title, err))
		}
	}
	return batch, append(faults, circles(batch)...), nil
}

// resolve turns keys and ids of what comes before into ids.
func (d *draft) resolve(t *Task, after []string, keys map[string]string) (faults []string) {
	for _, name := range after {
		name = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(name), "tasks/"), ".md")
		switch {
		case keys[name] != "":
			t.After = append(t.After, keys[name])
		case d.keys[name] != "":
			t.After = append(t.After, d.keys[name])
		case d.isNew(name) || d.board.IsOpen(name) && !slices.Contains(d.withdrawn, TaskPath(name)):
			t.After = append(t.After, name)
		default:
			faults = append(faults, fmt.Sprintf("task %q: after %q is neither an open task nor a key of a new one; leave it out if that is finished", t.Title, name))
		}
	}
	return faults
}

// circles names new tasks that wait for each other.
func circles(batch []Task) (faults []string) {
	after := map[string][]string{}
	for _, t := range batch {
		after[t.ID] = t.After
	}
	for _, t := range batch {
		if reaches(after, t.ID) {
			faults = append(faults, fmt.Sprintf("task %q: its `after` leads back to itself", t.Title))
		}
	}
	return faults
}

func (d *draft) withdraw(call model.ToolCall) (Result, error) {
	var in struct {
		IDs texts `json:"ids"`
	}
	if err := call.Decode(&in); err != nil {
		return Result{}, err
	}
	open, err := d.mine()
	if err != nil {
		return Result{}, &harnessError{err}
	}
	for _, id := range in.IDs {
		if !d.isNew(id) && (len(open[id]) == 0 || slices.Contains(d.withdrawn, open[id][0])) {
			return Result{}, fmt.Errorf("nothing was withdrawn: %q is no open task or slice of yours", id)
		}
	}
	for _, id := range in.IDs {
		before := len(d.created) + len(d.spawned)
		d.created = slices.DeleteFunc(d.created, func(t Task) bool { return t.ID == id })
		d.spawned = slices.DeleteFunc(d.spawned, func(s Slice) bool { return s.ID == id })
		if len(d.created)+len(d.spawned) == before && !slices.Contains(d.withdrawn, open[id][0]) {
			d.withdrawn = append(d.withdrawn, open[id]...)
		}
	}
	return Result{Text: fmt.Sprintf("withdrawn: %s", strings.Join(in.IDs, ", "))}, nil
}

func (d *draft) note(call model.ToolCall) (Result, error) {
	var in struct {
		Text string `json:"text"`
	}
	if err := call.Decode(&in); err != nil {
		return Result{}, err
	}
	if len(in.Text) > maxScratchpad {
		return Result{}, fmt.Errorf("%d bytes; at most %d are kept. Leave out what the repository or the open tasks show", len(in.Text), maxScratchpad)
	}
	d.scratchpad = strings.ToValidUTF8(in.Text, "\ufffd")
	return Result{Text: "scratchpad replaced"}, nil
}

// mine is what is open and the planner's own, by id: the paths that go with it. A
// malformed file may be anything.
func (d *draft) mine() (map[string][]string, error) {
	open := map[string][]string{}
	for _, t := range d.board.Tasks {
		open[t.ID] = []string{TaskPath(t.ID)}
	}
	for _, m := range d.board.Malformed {
		open[strings.TrimSuffix(strings.TrimPrefix(m.Path, "tasks/"), ".md")] = []string{m.Path}
	}
	for _, g := range d.board.Goals {
		if g.Planner == d.p.Path {
			continue
		}
		all, err := d.p.Repo.Files(d.main, "tasks/"+g.Planner)
		if err != nil {
			return nil, err
		}
		open[g.Planner] = all
	}
	return open, nil
}

func (d *draft) isNew(id string) bool {
	return slices.ContainsFunc(d.created, func(t Task) bool { return t.ID == id }) ||
		slices.ContainsFunc(d.spawned, func(s Slice) bool { return s.ID == id })
}

// left counts what is open after this turn.
func (d *draft) left() int {
	left := len(d.created) + len(d.spawned)
	gone := d.gone()
	count := func(id string) {
		if !slices.Contains(gone, id) {
			left++
		}
	}
	for _, t := range d.board.Tasks {
		count(t.ID)
	}
	for _, m := range d.board.Malformed {
		count(strings.TrimSuffix(strings.TrimPrefix(m.Path, "tasks/"), ".md"))
	}
	for _, g := range d.board.Goals {
		if g.Planner != d.p.Path {
			count(g.Planner)
		}
	}
	return left
}

func (d *draft) wait(model.ToolCall) (Result, error) {
	if d.left() <= 0 && d.awaits == "" && (d.understood == "" || !d.p.Confirm) {
		return Result{}, errors.New("nothing is open, so nothing would ever wake you: create tasks, or finish if the goal is met")
	}
	return Result{Text: "waiting", End: true}, nil
}

func (d *draft) finish(call model.ToolCall) (Result, error) {
	var in struct {
		Summary  string `json:"summary"`
		Notes    texts  `json:"notes"`
		Concerns texts  `json:"concerns"`
	}
	if err := call.Decode(&in); err != nil {
		return Result{}, err
	}
	if strings.TrimSpace(in.Summary) == "" {
		return Result{}, errors.New("summary: one line on what was reached is wanted")
	}
	if err := d.mayPlan(); err != nil {
		return Result{}, err
	}
	if left := d.left(); left > 0 {
		return Result{}, fmt.Errorf("not finished: %d of your tasks or slices are open; wait for them or withdraw them", left)
	}
	if d.untouched {
		d.untouched = false
		return Result{}, errors.New("nothing was done for this goal yet. Create tasks; or, if you have seen in the repository that it is met already, say so in `summary` and call finish again")
	}
	d.finished, d.summary = true, in.Summary
	d.handoff = Handoff{Notes: in.Notes, Concerns: in.Concerns}
	return Result{Text: "finished", End: true}, nil
}
