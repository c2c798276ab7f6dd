package green_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"greenward/green"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/proc"
	"greenward/internal/verify"
)

const policyText = `checks:
  - {name: build, run: make build}
  - {name: test, run: make test}
green: {repair: [revert, subset, agent, prefix]}
`

// truth is a judge whose verdicts come from what the tree holds: a file
// broken/<check> fails it, infra/<check> breaks it, hang/<check> has it time out, skip/<check> runs without
// a verdict, pending/<check> has not answered, absent/<check> is not reported,
// and pair/x with pair/y fail test together. Evidence is kept by tree.
type truth struct {
	repo *git.Repo

	mu      sync.Mutex
	known   map[string]verify.Outcome
	runs    int
	down    bool              // everything fails from now on
	flaky   map[string]int    // check → failures still to come
	needs   map[string]string // file → the file without which build fails
	onJudge func(tree git.Hash, checks []string, again bool)
}

func (t *truth) Judge(_ context.Context, s verify.Subject, checks []config.Check, again bool) (verify.Report, error) {
	tree, err := t.repo.WithoutTasks(orTree(s))
	if err != nil {
		return verify.Report{}, err
	}
	files, err := t.repo.Files(tree, "")
	if err != nil {
		return verify.Report{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.onJudge != nil {
		var names []string
		for _, k := range checks {
			names = append(names, k.Name)
		}
		t.onJudge(tree, names, again)
	}
	report := verify.Report{Tree: tree}
	for _, k := range checks {
		if slices.Contains(files, "absent/"+k.Name) {
			continue
		}
		key := string(tree) + " " + k.Name + " " + k.Def()
		o, ok := t.known[key]
		if !ok || again {
			o = t.run(o, files, k)
			report.Ran += o.Ran
			t.known[key] = o
		} else {
			o.Ran = 0
		}
		report.Outcomes = append(report.Outcomes, o)
	}
	return report, nil
}

// Known is what Judge said before.
func (t *truth) Known(s verify.Subject, checks []config.Check) (verify.Report, error) {
	tree, err := t.repo.WithoutTasks(orTree(s))
	if err != nil {
		return verify.Report{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	report := verify.Report{Tree: tree}
	for _, k := range checks {
		if o, ok := t.known[string(tree)+" "+k.Name+" "+k.Def()]; ok {
			o.Ran = 0
			report.Outcomes = append(report.Outcomes, o)
		}
	}
	return report, nil
}

// checks are those of the policy that every place begins with.
func (p *place) checks() []config.Check {
	p.Helper()
	c, err := config.Parse([]byte(policyText))
	if err != nil {
		p.Fatal(err)
	}
	return c.Checks
}

func orTree(s verify.Subject) git.Hash {
	if s.Tree.IsZero() {
		return s.Commit
	}
	return s.Tree
}

func (t *truth) run(o verify.Outcome, files []string, k config.Check) verify.Outcome {
	has := func(name string) bool { return slices.Contains(files, name) }
	o.Check, o.Def, o.Required, o.Cause = k.Name, k.Def(), k.Required, ""
	if has("pending/" + k.Name) {
		o.Verdict, o.Cause, o.Ran = verify.Unknown, verify.CausePending, 0
		return o
	}
	o.Runs++
	o.Ran = 1
	t.runs++
	lacks := false
	for user, used := range t.needs {
		lacks = lacks || k.Name == "build" && has(user) && !has(used)
	}
	switch {
	case has("infra/" + k.Name):
		o.Verdict, o.Cause = verify.Broken, verify.CauseWorkspace
		return o
	case has("hang/" + k.Name):
		o.Verdict, o.Cause = verify.Unknown, verify.CauseTimeout
		o.Timeouts++
		return o
	case has("skip/" + k.Name):
		o.Verdict, o.Cause = verify.Unknown, verify.CauseSkipped
		return o
	case t.down, lacks, has("broken/" + k.Name), t.flaky[k.Name] > 0, k.Name == "test" && has("pair/x") && has("pair/y"):
		o.Fails++
		o.Output = "it fails"
		t.flaky[k.Name]--
	default:
		o.Passes++
	}
	o.Verdict = verify.Failed
	if o.Passes > o.Fails {
		o.Verdict = verify.Passed
	}
	return o
}

// mender is a fixup agent that applies one edit.
type mender struct {
	repo  *git.Repo
	edits map[string]string
	calls int
	last  green.FixInput
}

func (m *mender) Fix(_ context.Context, in green.FixInput) (green.FixResult, error) {
	m.calls++
	m.last = in
	var edits []git.Edit
	for path, text := range m.edits {
		if text == gittest.Deleted {
			edits = append(edits, git.Edit{Path: path})
			continue
		}
		blob, err := m.repo.WriteBlob([]byte(text))
		if err != nil {
			return green.FixResult{}, err
		}
		edits = append(edits, git.Edit{Path: path, Hash: blob})
	}
	tree, err := m.repo.EditTree(in.Tree, edits)
	return green.FixResult{Tree: tree, Summary: "take the broken file away", Agent: "fixup-1", Model: "scripted"}, err
}

// place is a hub with a main branch, a judge and an engine.
type place struct {
	*testing.T
	dir    string
	truth  *truth
	engine *green.Engine
	now    func() time.Time
}

func newPlace(t *testing.T, host ...proc.Host) *place {
	t.Helper()
	p := &place{T: t, dir: gittest.Bare(t), now: gittest.Clock()}
	p.commit("begin", map[string]string{".greenward.yml": policyText, "a.txt": "a\n", "tasks/run/GOAL.md": "goal\n"})
	h := gittest.Host(t)
	if len(host) > 0 {
		h = host[0]
	}
	p.open(h)
	return p
}

func (p *place) open(host proc.Host) {
	p.Helper()
	hub, err := git.OpenHub(p.Context(), git.HubInput{Dir: p.dir, Host: host})
	if err != nil {
		p.Fatal(err)
	}
	key, err := hub.Key()
	if err != nil {
		p.Fatal(err)
	}
	if p.truth == nil {
		p.truth = &truth{known: map[string]verify.Outcome{}, flaky: map[string]int{}}
	}
	p.truth.repo = hub.Repo
	p.engine = &green.Engine{Hub: hub, Judge: p.truth, Signer: key, Now: p.now, By: "test"}
}

func (p *place) commit(message string, files map[string]string) git.Hash {
	p.Helper()
	return git.Hash(gittest.Commit(p.T, p.dir, "main", message, files))
}

// good adds a commit that breaks nothing.
func (p *place) good(name string) git.Hash {
	p.Helper()
	return p.commit(name, map[string]string{name + ".txt": name + "\n"})
}

// breaks adds a commit that makes a check fail.
func (p *place) breaks(name, check string) git.Hash {
	p.Helper()
	return p.commit(name, map[string]string{name + ".txt": name + "\n", "broken/" + check: name + "\n"})
}

func (p *place) cycle() green.Result {
	p.Helper()
	r, err := p.engine.Cycle(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	p.invariants()
	return r
}

func (p *place) git(args ...string) string {
	p.Helper()
	return gittest.Git(p.T, p.dir, args...)
}

func (p *place) tip(ref string) git.Hash {
	p.Helper()
	return git.Hash(p.git("for-each-ref", "--format=%(objectname)", ref))
}

func (p *place) files(rev string) []string {
	p.Helper()
	return strings.Fields(p.git("ls-tree", "-r", "--name-only", rev))
}

func (p *place) promotion(rev string) green.Promotion {
	p.Helper()
	c, err := p.engine.Hub.Commit(git.Hash(p.git("rev-parse", rev)))
	if err != nil {
		p.Fatal(err)
	}
	out, err := green.ReadPromotion(c)
	if err != nil {
		p.Fatal(err)
	}
	return out
}

// land takes the repairs in the queue onto main by fast hand, as the lander would.
func (p *place) land() {
	p.Helper()
	for line := range strings.FieldsSeq(p.git("for-each-ref", "--format=%(refname)", "refs/heads/queue/")) {
		message := p.git("log", "-1", "--format=%B", line)
		culprit := ""
		for l := range strings.Lines(message) {
			if id, ok := strings.CutPrefix(l, "Reverts: "); ok {
				culprit = strings.TrimSpace(id)
			}
		}
		files := map[string]string{}
		for f := range strings.FieldsSeq(p.git("diff", "--name-only", "--no-renames", line+"^", line)) {
			files[f] = gittest.Deleted
			if slices.Contains(p.files(line), f) {
				files[f] = p.git("show", line+":"+f) + "\n"
			}
		}
		p.commit("Land the repair of "+culprit+"\n\nReverts: "+culprit, files)
		p.git("update-ref", "-d", line)
	}
}

// invariants holds I1 to I3 of the cases: green only moves forward, what it
// holds passes by evidence for exactly that tree, and merging green into main
// loses nothing of main.
func (p *place) invariants() {
	p.Helper()
	tip := p.tip("refs/heads/green")
	if tip == "" {
		return
	}
	v, err := green.Verify(p.Context(), green.VerifyInput{Repo: p.engine.Hub.Repo})
	if err != nil {
		p.Fatal(err)
	}
	if !v.Valid {
		p.Fatalf("green does not verify: %v", v.Faults)
	}
	bare, err := p.engine.Hub.WithoutTasks(tip)
	if err != nil {
		p.Fatal(err)
	}
	for _, c := range p.promotion("green").Checks {
		passed := false
		for key, o := range p.truth.known {
			passed = passed || strings.HasPrefix(key, string(bare)+" "+c.Name+" ") && o.Passes > 0
		}
		if !passed {
			p.Fatalf("I2: no evidence that %s passed on the tree of green", c.Name)
		}
	}
	merged, err := p.engine.Hub.MergeTree(p.Context(), git.MergeInput{Ours: p.tip("refs/heads/main"), Theirs: tip})
	if err != nil {
		p.Fatal(err)
	}
	if len(merged.Conflicts) > 0 {
		return // loud, and nothing is lost
	}
	last := p.promotion("green")
	if last.Repair == green.RepairRollback {
		return // G42 iii: nothing but the queue's guard helps here
	}
	after := strings.Fields(p.git("ls-tree", "-r", "--name-only", string(merged.Tree)))
	for _, f := range p.files("main") {
		if !slices.Contains(after, f) && last.Repair != green.RepairAgent {
			p.Fatalf("I3: merging green into main loses %s", f)
		}
	}
}

func sshKeygen(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not on this machine")
	}
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
