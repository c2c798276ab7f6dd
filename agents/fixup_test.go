package agents

import (
	"errors"
	"strings"
	"testing"
	"time"

	"greenward/agents/model"
	"greenward/green"
	"greenward/internal/config"
	"greenward/internal/verify"
)

func (w *world) fixup(client model.Client) *Fixup {
	return &Fixup{Repo: w.hub.Repo, Agent: "fixup-1", Client: client, Workspaces: w.workspaces(), Now: w.now, Env: CommandEnv(w.host, w.TempDir())}
}

// broken is a hub whose check fails, and what green asks to mend.
func broken(t *testing.T) (*world, green.FixInput) {
	t.Helper()
	w := newWorld(t, map[string]string{"a.txt": "good\n", "a_test.go": "package a\n\nfunc TestA(t *testing.T) {}\n", "ci/x.yml": "x\n", ".greenward.yml": "main: main\n"})
	culprit := w.commit("break it", map[string]string{"a.txt": "bad\n"})
	tree, err := w.hub.WithoutTasks(culprit)
	if err != nil {
		t.Fatal(err)
	}
	check := config.Check{Name: "test", Run: "grep -q good a.txt", Timeout: time.Minute, Required: true}
	return w, green.FixInput{
		Commit: culprit, Tree: tree, Check: check, Checks: []config.Check{check}, Culprits: w.hashes(culprit), Protected: []string{"ci/**"},
		Failing: []verify.Outcome{{Check: "test", Verdict: verify.Failed, Output: "no good\n", Failing: []string{"TestA"}}},
	}
}

func TestFixupMends(t *testing.T) {
	w, in := broken(t)
	var told string
	fixup := w.fixup(script(func(r model.Request) model.Message {
		switch turns(r) {
		case 0:
			told = last(r)
			return use("submit_fix", args{"summary": "too early"})
		case 1:
			return use("edit", args{"path": "a.txt", "old_str": "bad", "new_str": "good again"})
		default:
			return use("submit_fix", args{"summary": "It said bad.\nTask: forged"})
		}
	}))
	var _ green.Fixer = fixup
	got, err := fixup.Fix(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	text, err := w.hub.File(got.Tree, "a.txt")
	if err != nil || string(text) != "good again\n" || got.Summary != "It said bad. Task: forged" || got.Agent != "fixup-1" || got.Model != "scripted" {
		t.Errorf("result %+v, a.txt %q, %v", got, text, err)
	}
	if files := w.git("ls-tree", "--name-only", string(got.Tree)); strings.Contains(files, "tasks") {
		t.Errorf("tree holds %s", files)
	}
	for _, want := range []string{"no good", "TestA", "+bad", "break it", string(in.Commit)} {
		if !strings.Contains(told, want) {
			t.Errorf("told nothing of %q:\n%s", want, told)
		}
	}
	w.noWorkspaceLeft()
}

// TestG46FixupRefusesCheapWaysOut: deleted tests, skips and edits of the policy
// are refused mechanically.
func TestG46FixupRefusesCheapWaysOut(t *testing.T) {
	for name, one := range map[string]struct{ command, want string }{
		"a deleted test":  {"echo good >a.txt; rm a_test.go", "deleted"},
		"a skip":          {`echo good >a.txt; sed -i 's/{}/{ t.Skip("later") }/' a_test.go`, "skips"},
		"a test less":     {`echo good >a.txt; printf 'package a\n' >a_test.go`, "fewer tests"},
		"policy":          {"echo good >a.txt; echo checks: none >>.greenward.yml", "protected"},
		"protected":       {"echo good >a.txt; echo y >ci/x.yml", "protected"},
		"tasks":           {"echo good >a.txt; mkdir -p tasks; echo y >tasks/x.md", "tasks/"},
		"a link":          {"rm a.txt; ln -s README.md a.txt", "regular file"},
		"too many files":  {"echo good >a.txt; for i in $(seq 30); do echo >f$i; done", "files are touched"},
		"too many lines":  {"echo good >a.txt; seq 500 >long.txt", "lines"},
		"nothing":         {"true", "nothing is changed"},
		"still failing":   {"echo worse >a.txt", "still fails"},
		"conflict marker": {`printf '<<<<<<< a\ngood\n=======\n>>>>>>> b\n' >a.txt`, "markers"},
	} {
		t.Run(name, func(t *testing.T) {
			w, in := broken(t)
			var heard string
			fixup := w.fixup(script(func(r model.Request) model.Message {
				switch turns(r) {
				case 0:
					return use("shell", args{"command": one.command})
				case 1:
					return use("submit_fix", args{"summary": "x"})
				default:
					heard = last(r)
					return use("give_up", args{"reason": "no honest way"})
				}
			}))
			_, err := fixup.Fix(t.Context(), in)
			if !errors.Is(err, ErrNoFix) || !strings.Contains(err.Error(), "no honest way") || !strings.Contains(heard, one.want) {
				t.Errorf("heard %q, error %v", heard, err)
			}
			kept, listErr := ListRescued(w.hub.Repo, "")
			if changes := one.command != "true"; listErr != nil || changes != (len(kept) == 1) {
				t.Errorf("kept of what was refused: %v, %v", kept, listErr)
			}
			w.noWorkspaceLeft()
		})
	}
}

func TestFixupStopsAskingAfterTries(t *testing.T) {
	w, in := broken(t)
	_, err := w.fixup(steps(use("submit_fix", args{"summary": "x"}))).Fix(t.Context(), in)
	if !errors.Is(err, ErrNoFix) {
		t.Error(err)
	}
	w.noWorkspaceLeft()
}

// TestG46HoldOutsAreInNoObjectStore: an agent who mends and searches every object that
// its git can reach, and the hub's directory, finds nothing of what was held out; its
// own git works all the same.
func TestG46HoldOutsAreInNoObjectStore(t *testing.T) {
	w, in := broken(t)
	w.commit("held out", map[string]string{"hidden/secret.txt": "the answer is 42\n"})
	blob := w.git("rev-parse", "main:hidden/secret.txt")
	in.Hidden = true
	var looked string
	client := script(func(r model.Request) model.Message {
		switch turns(r) {
		case 0:
			return use("shell", args{"command": "git cat-file --batch-all-objects --batch-check; git cat-file -p " + blob + "; cat .git/objects/info/alternates; grep -rl 'answer is 42' " + w.dir + "; git status --porcelain; git log --format=%s; echo good >a.txt; git diff --stat"})
		case 1:
			looked = last(r)
			return use("submit_fix", args{"summary": "good again"})
		}
		return use("give_up", args{"reason": "refused"})
	})
	worker, _ := w.sheltered(t, nil)
	fixup := w.fixup(client)
	fixup.Workspaces = worker.Workspaces
	result, err := fixup.Fix(t.Context(), in)
	if err != nil || result.Tree.IsZero() {
		t.Fatalf("%+v, %v; it saw %s", result, err, looked)
	}
	if got := w.show(string(result.Tree), "a.txt"); got != "good" {
		t.Errorf("a.txt is %q", got)
	}
	if strings.Contains(looked, blob+" blob") || strings.Contains(looked, "answer is 42") || strings.Contains(looked, w.dir+"/") {
		t.Errorf("it found what was held out:\n%s", looked)
	}
	if !strings.Contains(looked, "the tree to mend") || !strings.Contains(looked, "1 file changed") {
		t.Errorf("its git does not work:\n%s", looked)
	}
	w.noWorkspaceLeft()
}
