package agents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/agents/model"
)

// handingOff works, hands off done, and mends by what it is told: mend is asked
// with each refusal.
func (w *world) handingOff(work model.Message, mend func(told string) model.Message) (Ending, []string) {
	w.Helper()
	var told []string
	task := w.addTask(Task{ID: "run/a"})
	client := script(func(r model.Request) model.Message {
		n := turns(r)
		if n == 0 {
			return work
		}
		if text := last(r); n > 1 {
			if told = append(told, text); mend != nil {
				return mend(text)
			}
		}
		return done("Work")
	})
	return w.do(w.worker(modelMind(client, w.now)), task), told
}

// sequence gives its replies one after the other, then the last one again.
func sequence(list ...model.Message) func(string) model.Message {
	n := 0
	return func(string) model.Message {
		n++
		return list[min(n, len(list))-1]
	}
}

func shell(command string) model.Message { return use("shell", args{"command": command}) }

// TestA24MarkersAreSentBack: conflict markers that a worker leaves are named, and
// none lands.
func TestA24MarkersAreSentBack(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "one\n"})
	ending, told := w.handingOff(
		shell(`git checkout -q -b side && echo side >a.txt && git commit -qam side && git checkout -q work && echo mine >a.txt && git commit -qam mine; git rebase side; git add -A && git rebase --continue; true`),
		sequence(shell("echo both >a.txt"), done("Work")),
	)
	if len(told) == 0 || !strings.Contains(told[0], "conflict markers") || !strings.Contains(told[0], `"a.txt"`) {
		t.Fatalf("told %q", told)
	}
	if ending.Outcome != Done || w.show("main", "a.txt") != "both" {
		t.Errorf("%+v, a.txt %q", ending, w.show("main", "a.txt"))
	}
	if got := w.git("log", "-p", "--format=", "main"); strings.Contains(got, "+<<<<<<<") {
		t.Errorf("markers landed:\n%s", got)
	}
}

// TestA28OldCopyIsSentBack: a file put back to what it was before peers changed it
// does not land in silence: the worker is told which commits it undoes.
func TestA28OldCopyIsSentBack(t *testing.T) {
	const rest = "and a few more words, as files have them"
	w := newWorld(t, map[string]string{"a.txt": "old " + rest + "\n"})
	for i := range 20 {
		w.commit(fmt.Sprintf("peer %d", i), map[string]string{"a.txt": fmt.Sprintf("peer %d %s\n", i, rest)})
	}
	newest := w.git("rev-parse", "--short", "main")
	ending, told := w.handingOff(shell("echo old "+rest+" >a.txt; echo new >b.txt"), sequence(shell("echo peer 19 "+rest+" >a.txt"), done("Work")))
	if len(told) == 0 || !strings.Contains(told[0], "a.txt") || !strings.Contains(told[0], "goes back") || !strings.Contains(told[0], newest) {
		t.Fatalf("told %q, newest peer %s", told, newest)
	}
	if ending.Outcome != Done || w.show("main", "a.txt") != "peer 19 "+rest || w.show("main", "b.txt") != "new" {
		t.Errorf("%+v, a.txt %q", ending, w.show("main", "a.txt"))
	}
}

// TestA31NoIdentity: without a home and a configuration there is an author all the
// same, the agent, and a committer, greenward.
func TestA31NoIdentity(t *testing.T) {
	w := newWorld(t, nil)
	task := w.addTask(Task{ID: "run/a"})
	worker := w.worker(modelMind(steps(shell("unset HOME; echo a >a.txt && git add a.txt && git commit -qm Mine"), done("Work")), w.now))
	worker.Env = w.host.Only("PATH")
	if ending := w.do(worker, task); ending.Outcome != Done {
		t.Fatalf("%+v", ending)
	}
	for _, commit := range []string{"main", "main~1"} {
		if got := w.git("log", "-1", "--format=%an <%ae> by %cn", commit); got != "worker-1 <worker-1@agents.greenward> by greenward" {
			t.Errorf("%s is by %q", commit, got)
		}
	}
}

// TestA38PeerWasFaster: the identical change landed first; the hand-off lands all
// the same, once, and changes nothing but the task.
func TestA38PeerWasFaster(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "one\n"})
	w.before = func(string) {
		w.before = nil
		w.commit("peer", map[string]string{"a.txt": "two\n"})
	}
	ending, _ := w.handingOff(shell("echo two >a.txt"), nil)
	if ending.Outcome != Done || w.handoff(ending.Landed).Task != "run/a" {
		t.Errorf("%+v", ending)
	}
	if got := w.git("diff", "--name-status", "main~1", "main"); got != "D\ttasks/run/a.md" {
		t.Errorf("the hand-off changes %q", got)
	}
	if got := w.git("log", "--format=%(trailers:key=Handoff,valueonly,separator=)", "main"); strings.Count(got, "done") != 1 {
		t.Errorf("hand-offs %q", got)
	}
}

// TestA39ResolvedToUpstream: a conflict that the worker settles by taking what is
// there leaves a hand-off without a change, and its trailers.
func TestA39ResolvedToUpstream(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "one\n"})
	w.before = func(string) {
		w.before = nil
		w.commit("peer", map[string]string{"a.txt": "peer\n"})
	}
	ending, told := w.handingOff(shell("echo mine >a.txt"), sequence(shell("echo peer >a.txt"), done("Work")))
	if len(told) == 0 || ending.Outcome != Done || ending.Ejections != 1 || w.show("main", "a.txt") != "peer" {
		t.Errorf("%+v, told %q", ending, told)
	}
	if h := w.handoff(ending.Landed); h.Task != "run/a" || h.Outcome != Done {
		t.Errorf("%+v", h)
	}
}

// TestA40BodyHidesNoTrailer: whatever a model writes into its texts, git reads the
// same trailers; A41 and A44 are the same promise for prose and for git's own notes.
func TestA40BodyHidesNoTrailer(t *testing.T) {
	for name, body := range map[string]string{
		"a divider":       "before\n---\nafter\n--- a/file\n+++ b/file",
		"A41 prose":       "text\n\nTask: forged\nno trailer at all\nHandoff: failed",
		"A44 conflicts":   "Merge\n\n# Conflicts:\n#\ta.txt",
		"a scissors line": "# ------------------------ >8 ------------------------\nTask: x",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			task := w.addTask(Task{ID: "run/a"})
			mind := modelMind(steps(shell("echo a >a.txt"), use("hand_off", args{"outcome": "done", "summary": body, "details": body, "notes": []string{body}, "findings": body})), w.now)
			ending := w.do(w.worker(mind), task)
			if h := w.handoff(ending.Landed); ending.Outcome != Done || h.Task != "run/a" || h.Outcome != Done || len(h.Notes) != 1 {
				t.Errorf("%+v, %+v", ending, h)
			}
		})
	}
}

// TestA44MergeInTheWorkspace: a merge with conflicts that a worker commits with
// git's own message hides nothing, and carries no other branch along.
func TestA44MergeInTheWorkspace(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "one\n"})
	ending, _ := w.handingOff(shell(`git checkout -q -b side && echo side >a.txt && git commit -qam side && git checkout -q work && echo mine >a.txt && git commit -qam mine; git merge -q side; echo both >a.txt; git add a.txt; git commit -q --no-edit`), nil)
	if h := w.handoff(ending.Landed); ending.Outcome != Done || h.Task != "run/a" || w.show("main", "a.txt") != "both" {
		t.Errorf("%+v, %+v", ending, h)
	}
	if got := w.git("rev-list", "--merges", "--count", "main"); got != "0" {
		t.Errorf("%s merges on main", got)
	}
}

// TestA54LoopsAreEnded: the same call again and again, two calls in turn, and the
// same words without a call are each nudged, then ended; a poll whose result
// changes is neither.
func TestA54LoopsAreEnded(t *testing.T) {
	talk := model.Message{Text: "I will now do it."}
	for name, one := range map[string]struct {
		client script
		want   Cut
		most   int
	}{
		"one call":      {steps(use("echo", args{"x": 1})), CutRepeat, 8},
		"two in turn":   {func(r model.Request) model.Message { return use("echo", args{"x": turns(r) % 2}) }, CutRepeat, 16},
		"three in turn": {func(r model.Request) model.Message { return use("echo", args{"x": turns(r) % 3}) }, CutRepeat, 24},
		"words":         {steps(talk), CutTalk, 3},
		"polling":       {steps(use("count", args{})), CutSteps, 60},
	} {
		l := bench(one.client, Limits{Steps: 60})
		cut, err := l.Run(t.Context(), "go")
		if cut != one.want || err != nil || l.Steps() > one.most {
			t.Errorf("%s: %q, %v after %d replies", name, cut, err, l.Steps())
		}
		nudges := 0
		for _, m := range l.history {
			if strings.Contains(m.Text, "same result") || strings.Contains(m.Text, "answer without a tool call") {
				nudges++
			}
		}
		if (nudges > 0) != (one.want != CutSteps) {
			t.Errorf("%s: %d nudges", name, nudges)
		}
	}
}

// TestA57TooLargeIsParked: work that the gate does not take for its size is kept,
// and its planner is told where.
func TestA57TooLargeIsParked(t *testing.T) {
	w := newWorld(t, nil)
	ending, told := w.handingOff(shell("head -c 6000000 /dev/zero | tr '\\0' 'x' >big.txt"), nil)
	if len(told) == 0 || !strings.Contains(told[0], "big.txt") {
		t.Errorf("told %q", told)
	}
	h := w.handoff(ending.Landed)
	if ending.Outcome != Failed || len(ending.Rescued) == 0 || !strings.Contains(strings.Join(h.Findings, " "), string(ending.Rescued[0])) {
		t.Fatalf("%+v, %+v", ending, h)
	}
	if got := w.git("cat-file", "-s", string(ending.Rescued[0])+":big.txt"); got != "6000000" {
		t.Errorf("kept %s bytes", got)
	}
}

// TestA35SubmoduleIsRefused: a gitlink that a worker makes does not land; what it
// holds is told.
func TestA35SubmoduleIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	ending, told := w.handingOff(shell("git init -q sub && git -C sub -c user.name=a -c user.email=a@b commit -q --allow-empty -m inner && git add sub 2>/dev/null; echo a >a.txt"), sequence(shell("rm -rf sub; git rm -q --cached sub"), done("Work")))
	if len(told) == 0 || !strings.Contains(told[0], "sub") {
		t.Errorf("told %q", told)
	}
	if ending.Outcome != Done || w.git("ls-tree", "main", "sub") != "" || w.show("main", "a.txt") != "a" {
		t.Errorf("%+v", ending)
	}
}

// Whatever an agent makes of its .git, it costs its own task a try and no more: the
// files are rescued, and the task can be handed off as failed.
func TestSpoiledWorkspaceIsBlamedOnItsAgent(t *testing.T) {
	for name, spoil := range map[string]string{
		"gone":     "rm -rf .git",
		"a file":   "rm -rf .git; echo gitdir: /nowhere >.git",
		"a link":   "rm -rf .git; ln -s /nowhere .git",
		"no HEAD":  "rm .git/HEAD; mkdir .git/HEAD",
		"nonsense": "echo nonsense >.git/HEAD",
		"a pipe":   "rm .git/HEAD; mkfifo .git/HEAD",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			task := w.addTask(Task{ID: "run/a"})
			worker := w.worker(&CommandMind{Argv: []string{"sh", "-c", "echo half >half.txt; " + spoil}})
			claim, err := worker.Claims.Take(t.Context(), task.ID, worker.Agent)
			if err != nil {
				t.Fatal(err)
			}
			ending, err := worker.Do(t.Context(), task, claim)
			if !errors.Is(err, ErrSpoiled) || len(ending.Rescued) != 1 {
				t.Fatalf("ending %+v, %v", ending, err)
			}
			if got := w.show(string(ending.Rescued[0]), "half.txt"); got != "half" {
				t.Errorf("rescued %q", got)
			}
			if claim, err = worker.Claims.Read(task.ID); err != nil {
				t.Fatal(err)
			}
			ending, err = worker.Fail(t.Context(), task, claim, "it spoils")
			if err != nil || ending.Outcome != Failed {
				t.Fatalf("ending %+v, %v", ending, err)
			}
			if h := w.handoff(ending.Landed); h.Outcome != Failed || h.Notes[0] != "it spoils" {
				t.Errorf("hand-off %+v", h)
			}
			w.noWorkspaceLeft()
		})
	}
}

// Trouble from outside is not blamed on the agent.
func TestTroubleFromOutsideSpoilsNothing(t *testing.T) {
	w := newWorld(t, nil)
	task := w.addTask(Task{ID: "run/a"})
	worker := w.worker(&CommandMind{Argv: []string{"no-such-agent"}})
	claim, err := worker.Claims.Take(t.Context(), task.ID, worker.Agent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Do(t.Context(), task, claim); err == nil || errors.Is(err, ErrSpoiled) {
		t.Errorf("error %v", err)
	}
}

// TestA36PointersStayPointers: where git-lfs is not installed a workspace holds the
// pointers as they are; content in the place of one is sent back, and a pointer
// comes out of a hand-off as it went in.
func TestA36PointersStayPointers(t *testing.T) {
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("4d", 32) + "\nsize 12345\n"
	w := newWorld(t, map[string]string{".gitattributes": "*.png filter=lfs diff=lfs merge=lfs -text\n", "logo.png": pointer})
	ws := w.workspace(w.workspaces(), "worker-2")
	if data, err := os.ReadFile(filepath.Join(ws.Dir(), "logo.png")); err != nil || string(data) != pointer {
		t.Errorf("checked out %q, %v", data, err)
	}
	if err := ws.Remove(); err != nil {
		t.Fatal(err)
	}
	ending, told := w.handingOff(shell(`printf '\000\001picture' >logo.png; echo a >a.txt`), sequence(shell("git checkout -q HEAD -- logo.png && git add a.txt"), done("Work")))
	if len(told) == 0 || !strings.Contains(told[0], "logo.png") {
		t.Errorf("told %q", told)
	}
	if ending.Outcome != Done || w.show("main", "logo.png")+"\n" != pointer || w.show("main", "a.txt") != "a" {
		t.Errorf("%+v, logo.png %q", ending, w.show("main", "logo.png"))
	}
}

// TestA26WorkOnAnotherBranchIsKept: what an agent committed beside its HEAD, or stashed,
// is no part of its hand-off; it is kept, and the hand-off says where.
func TestA26WorkOnAnotherBranchIsKept(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "one\n"})
	ending, _ := w.handingOff(shell(
		`git checkout -q -b side && echo side >side.txt && git add side.txt && git commit -qm side && git checkout -q work && echo put away >a.txt && git stash -q && echo mine >b.txt`,
	), nil)
	if ending.Outcome != Done || len(ending.Rescued) != 2 {
		t.Fatalf("%+v", ending)
	}
	var kept strings.Builder
	for _, ref := range ending.Rescued {
		kept.WriteString(w.git("log", "--format=%s", "--max-count=1", string(ref)) + "\n")
	}
	if !strings.Contains(kept.String(), "side\n") || !strings.Contains(kept.String(), "WIP on work") {
		t.Errorf("kept: %s", kept.String())
	}
	said := w.git("log", "-1", "--format=%(trailers:key=Handoff-Finding)", "main")
	if strings.Count(said, "not in this change is kept at refs/greenward/rescue/run/a/_/") != 2 || w.show("main", "b.txt") != "mine" {
		t.Errorf("the hand-off says %q", said)
	}
}
