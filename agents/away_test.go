package agents

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"
)

// farLandings lands in the hub what was pushed there, and takes what came of it.
type farLandings struct {
	w      *world
	mirror *git.Repo
}

func (f farLandings) Await(ctx context.Context, entry string) (journal.Decision, error) {
	if _, err := f.w.lander.Once(ctx); err != nil {
		return journal.Decision{}, err
	}
	if err := f.mirror.Sync(ctx); err != nil {
		return journal.Decision{}, err
	}
	return queue.Await(ctx, f.w.hub, entry)
}

// TestA05AHubThatIsAwayAtTheEndCostsNoWork: a hub that goes as the work is done is waited
// for with the work at hand, which is handed in once; nobody does it again.
func TestA05AHubThatIsAwayAtTheEndCostsNoWork(t *testing.T) {
	for name, outcome := range map[string]Outcome{"done": Done, "blocked": Blocked} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			task := w.addTask(Task{ID: "run/a"})
			dir := t.TempDir()
			mirror, err := git.OpenMirror(t.Context(), w.dir, filepath.Join(dir, "mirror.git"), w.host)
			if err != nil {
				t.Fatal(err)
			}
			starts := filepath.Join(dir, "starts")
			end := ""
			if outcome == Blocked { // its files are refused, and kept
				end = "; git init -q inner && git -C inner -c user.name=x -c user.email=x@x commit -q --allow-empty -m x"
			}
			mind := &CommandMind{Tries: 1, Argv: []string{"sh", "-c", "echo start >>" + starts + "; echo work >work.txt; mv " + w.dir + " " + w.dir + ".away" + end}}
			worker := w.worker(mind)
			worker.Repo, worker.Landings = mirror, farLandings{w, mirror}
			worker.Claims = &Claims{Repo: mirror, Self: w.self, Now: w.now, Rand: w.rand}
			worker.Workspaces = &Workspaces{Repo: mirror, State: filepath.Join(dir, "state"), Self: w.self, Now: w.now, Main: "refs/heads/main"}
			waits := 0
			worker.Away = func(context.Context) error {
				if waits++; waits == 3 {
					return os.Rename(w.dir+".away", w.dir)
				}
				return nil
			}
			ending := w.do(worker, task)
			if waits != 3 {
				t.Errorf("the hub was waited for %d times", waits)
			}
			if text, err := os.ReadFile(starts); err != nil || string(text) != "start\n" {
				t.Errorf("the work was begun: %q, %v", text, err)
			}
			switch {
			case outcome == Done && (ending.Outcome != Done || w.show("main", "work.txt") != "work"):
				t.Errorf("%+v", ending)
			case outcome == Blocked && (ending.Outcome == Done || len(ending.Rescued) == 0 || !strings.Contains(w.git("ls-tree", "-r", "--name-only", string(ending.Rescued[0])), "work.txt")):
				t.Errorf("%+v", ending)
			}
		})
	}
}

// Where nobody waits it is an error that says so.
func TestAHubThatIsAwayIsAnErrorOfItsOwn(t *testing.T) {
	w := newWorld(t, nil)
	mirror, err := git.OpenMirror(t.Context(), w.dir, filepath.Join(t.TempDir(), "mirror.git"), w.host)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(w.dir, w.dir+".away"); err != nil {
		t.Fatal(err)
	}
	_, err = (&Claims{Repo: mirror, Self: w.self, Now: w.now, Rand: w.rand}).Take(t.Context(), "run/a", "me")
	if syncErr := mirror.Sync(t.Context()); !errors.Is(err, git.ErrAway) || !errors.Is(syncErr, git.ErrAway) {
		t.Errorf("%v, %v", err, syncErr)
	}
	if err := os.Rename(w.dir+".away", w.dir); err != nil {
		t.Fatal(err)
	}
}
