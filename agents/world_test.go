package agents

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"greenward/agents/model"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
	"greenward/internal/proc"
	"greenward/queue"
)

// world is a hub with a main, a lander, and what agents need.
type world struct {
	testing.TB
	dir    string
	host   proc.Host
	hub    *git.Hub
	lander *queue.Lander
	self   proc.Identity
	now    func() time.Time
	rand   io.Reader
	before func(entry string) // called before an entry is decided; nil: nothing
}

const goalText = "Make it good.\n"

func newWorld(t testing.TB, files map[string]string) *world {
	t.Helper()
	w := &world{TB: t, dir: gittest.Bare(t), host: gittest.Host(t), now: gittest.Clock(), rand: newRand("world")}
	all := map[string]string{"README.md": "hello\n", "tasks/run/GOAL.md": goalText}
	maps.Copy(all, files)
	w.commit("begin", all)
	w.hub = w.open(w.host)
	w.lander = &queue.Lander{Hub: w.hub, Now: w.now, By: "test"}
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	w.self = self
	return w
}

func (w *world) open(host proc.Host) *git.Hub {
	w.Helper()
	hub, err := git.OpenHub(w.Context(), git.HubInput{Dir: w.dir, Host: host})
	if err != nil {
		w.Fatal(err)
	}
	return hub
}

func (w *world) commit(message string, files map[string]string) git.Hash {
	w.Helper()
	return git.Hash(gittest.Commit(w, w.dir, "main", message, files))
}

func (w *world) git(args ...string) string {
	w.Helper()
	return gittest.Git(w, w.dir, args...)
}

// show is a file at a revision.
func (w *world) show(rev, path string) string {
	w.Helper()
	return w.git("show", rev+":"+path)
}

func (w *world) main() git.Hash {
	w.Helper()
	return git.Hash(w.git("rev-parse", "main"))
}

// Await lands what waits, then reads the decision: a lander without a goroutine.
func (w *world) Await(ctx context.Context, entry string) (journal.Decision, error) {
	if w.before != nil {
		w.before(entry)
	}
	if _, err := w.lander.Once(ctx); err != nil {
		return journal.Decision{}, err
	}
	return queue.Await(ctx, w.hub, entry)
}

func (w *world) claims() *Claims {
	return &Claims{Repo: w.hub.Repo, Self: w.self, Now: w.now, Rand: w.rand, TTL: time.Hour}
}

func (w *world) workspaces() *Workspaces {
	return &Workspaces{Repo: w.hub.Repo, State: w.hub.State(), Self: w.self, Now: w.now, Main: "refs/heads/main"}
}

func (w *world) worker(mind Mind) *Worker {
	transcript, err := OpenTranscript(TranscriptInput{State: w.hub.State(), Run: "run", Agent: "worker-1", Now: w.now})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := transcript.Close(); err != nil {
			w.Error(err)
		}
	})
	return &Worker{
		Repo: w.hub.Repo, Main: "refs/heads/main", Agent: "worker-1", Run: "run", Mind: mind, Workspaces: w.workspaces(),
		Claims: w.claims(), Landings: w, Now: w.now, Env: CommandEnv(w.host, w.TempDir()), Transcript: transcript,
	}
}

// addTask puts a task on main.
func (w *world) addTask(t Task) Task {
	w.Helper()
	if t.Title == "" {
		t.Title = "Do " + t.ID
	}
	text, err := FormatTask(t)
	if err != nil {
		w.Fatal(err)
	}
	w.commit("add "+t.ID, map[string]string{TaskPath(t.ID): string(text)})
	parsed, err := ParseTask(t.ID, text)
	if err != nil {
		w.Fatal(err)
	}
	return parsed
}

// do claims a task and works on it.
func (w *world) do(worker *Worker, task Task) Ending {
	w.Helper()
	claim, err := worker.Claims.Take(w.Context(), task.ID, worker.Agent)
	if err != nil {
		w.Fatal(err)
	}
	ending, err := worker.Do(w.Context(), task, claim)
	if err != nil {
		w.Fatal(err)
	}
	return ending
}

// handoff is the hand-off of a commit, as git's own trailer reader sees it.
func (w *world) handoff(commit git.Hash) Handoff {
	w.Helper()
	var t git.Trailers
	message := w.git("log", "-1", "--format=%B", string(commit))
	out := proc.NewCapture(1<<20, 0, nil)
	result, err := proc.Run(w.Context(), proc.Command{
		Name: "git", Args: []string{"interpret-trailers", "--parse"}, Dir: w.dir, Env: w.host.Only("PATH"), Stdin: strings.NewReader(message + "\n"), Stdout: out,
	})
	if err != nil || !result.OK() {
		w.Fatal(err, result)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(out.String()), "\n") {
		key, value, _ := strings.Cut(line, ": ")
		t = t.With(key, value)
	}
	h, err := ParseHandoff(t)
	if err != nil {
		w.Fatalf("%v in\n%s", err, message)
	}
	return h
}

func (w *world) noWorkspaceLeft() {
	w.Helper()
	left, err := filepath.Glob(filepath.Join(w.hub.State(), "work", "*", "*"))
	if err != nil {
		w.Fatal(err)
	}
	for _, path := range left {
		if !strings.HasSuffix(path, ".lock") {
			w.Errorf("left behind: %s", path)
		}
	}
}

// script is a model that is a program: it answers by what was said so far.
type script func(r model.Request) model.Message

// Complete answers.
func (s script) Complete(ctx context.Context, r model.Request) (model.Reply, error) {
	if ctx.Err() != nil {
		return model.Reply{}, context.Cause(ctx)
	}
	m := s(r)
	m.Role = model.Assistant
	stop := model.StopEnd
	if len(m.Calls) > 0 {
		stop = model.StopTools
	}
	return model.Reply{Message: m, Stop: stop, Model: "scripted", Usage: model.Usage{Prompt: 10, Completion: 5}, Tries: 1}, nil
}

// turns counts the replies so far.
func turns(r model.Request) int {
	n := 0
	for _, m := range r.Messages {
		if m.Role == model.Assistant {
			n++
		}
	}
	return n
}

// last is the text of the last message.
func last(r model.Request) string { return r.Messages[len(r.Messages)-1].Text }

// use is a reply that calls tools; pairs are name, arguments.
func use(pairs ...any) model.Message {
	var m model.Message
	for i := 0; i+1 < len(pairs); i += 2 {
		data, err := json.Marshal(pairs[i+1])
		if err != nil {
			panic(err)
		}
		m.Calls = append(m.Calls, model.ToolCall{ID: fmt.Sprintf("c%d", i), Name: pairs[i].(string), Arguments: string(data)})
	}
	return m
}

type args = map[string]any

// steps is a script of fixed replies; the last one repeats.
func steps(list ...model.Message) script {
	return func(r model.Request) model.Message { return list[min(turns(r), len(list)-1)] }
}

func modelMind(client model.Client, now func() time.Time) *ModelMind {
	return &ModelMind{Client: client, Now: now}
}

// newRand is an endless stream of bytes for a seed, safe for concurrent use.
func newRand(seed string) io.Reader { return &seeded{seed: seed} }

type seeded struct {
	mu   sync.Mutex
	seed string
	n    uint64
	left bytes.Buffer
}

func (s *seeded) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.left.Len() < len(p) {
		s.n++
		sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(s.seed), s.n))
		s.left.Write(sum[:])
	}
	return s.left.Read(p)
}

func (w *world) hashes(list ...git.Hash) []git.Hash { return list }
