package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"greenward/agents/cell"
	"greenward/agents/model"
	"greenward/internal/gittest"
	"greenward/internal/modeltest"
	"greenward/internal/proc"
)

// served is a transport that answers in process.
type served struct{ http.Handler }

func (s served) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

// TestAModelThatAnswersRubbish: a message of 10 MB, 10,000 calls, wrong UTF-8, a
// web page, nothing at all and calls of another role's tools neither end a worker
// nor grow what is sent: it goes on to its hand-off, a strict server takes every
// request, and the transcript can be read.
func TestAModelThatAnswersRubbish(t *testing.T) {
	const js = "application/json"
	raw := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, body)
		}
	}
	call := func(name, arguments string) string {
		quoted, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`{"choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":%q,"arguments":%s}}]}}]}`, name, quoted)
	}
	for name, one := range map[string]struct {
		rubbish http.HandlerFunc       // instead of the first answer
		script  func() modeltest.Reply // or what the server says first
		told    string                 // what the model is told of it; "": nothing, it is asked again
	}{
		"10 MB of words": {rubbish: raw(js, `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"`+strings.Repeat("words ", 10<<20/6)+`"}}]}`), told: "cut at its length limit"},
		"10 MB of arguments": {script: func() modeltest.Reply {
			return modeltest.Use(modeltest.NewCall("write", args{"path": "big.txt", "content": strings.Repeat("x", 10<<20)}))
		}, told: "cut at its length limit"},
		"10,000 calls": {script: func() modeltest.Reply {
			var many []modeltest.Call
			for i := range 10_000 {
				many = append(many, modeltest.NewCall("read", args{"path": fmt.Sprintf("no-%d", i)}))
			}
			return modeltest.Use(many...)
		}, told: "more calls of that reply were not run"},
		"wrong UTF-8":          {rubbish: raw(js, strings.ReplaceAll(call("read", "{\"path\":\"a?b\"}"), "?", "\xff\xfe")), told: "a\ufffd"},
		"wrong UTF-8 in words": {rubbish: raw(js, "{\"choices\":[{\"finish_reason\":\"stop\",\"message\":{\"role\":\"assistant\",\"content\":\"a\xff\x80b\"}}]}"), told: "without a tool call"},
		"a web page":           {rubbish: raw("text/html", "<html>please log in</html>")},
		"nothing at all":       {rubbish: raw(js, "")},
		"nothing, as a stream": {rubbish: raw("text/event-stream", "")},
		"a tool of a planner's": {script: func() modeltest.Reply {
			return modeltest.Use(modeltest.NewCall("create_tasks", args{"tasks": []args{{"title": "x", "body": "y"}}}))
		}, told: `there is no tool "create_tasks"`},
		"a tool of green's": {script: func() modeltest.Reply { return modeltest.Use(modeltest.NewCall("submit_fix", args{"summary": "x"})) }, told: `there is no tool "submit_fix"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"a.txt": "one\n"})
			task := w.addTask(Task{ID: "run/a"})
			var told string
			requests := 0
			server := modeltest.New(modeltest.Func(func(r modeltest.Request) modeltest.Reply {
				if one.script != nil && r.Turns() == 0 {
					return one.script()
				}
				if told == "" {
					told = strings.Join(r.Results(), "\n") + r.LastUser()
				}
				if !strings.Contains(strings.Join(r.Results(), "\n"), "wrote") && r.Turns() < 3 {
					return modeltest.Use(modeltest.NewCall("write", args{"path": "b.txt", "content": "done\n"}))
				}
				return modeltest.Use(modeltest.NewCall("hand_off", args{"outcome": "done", "summary": "b"}))
			}), modeltest.Options{})
			handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || len(body) > 2<<20 || !utf8.Valid(body) {
					t.Errorf("request %d of %d bytes, valid text %v, %v", requests, len(body), utf8.Valid(body), err)
				}
				if requests++; requests == 1 && one.rubbish != nil {
					one.rubbish(rw, r)
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				server.Handler().ServeHTTP(rw, r)
			})
			client, err := model.New(model.Options{BaseURL: "http://model.test/v1", Now: w.now, Model: "m", Transport: served{handler}})
			if err != nil {
				t.Fatal(err)
			}
			// What was thrown away is paid for all the same: 10 MB are 3.5 M tokens.
			ending := w.do(w.worker(&ModelMind{Client: client, Now: w.now, Limits: Limits{Tokens: 10_000_000}}), task)
			if ending.Outcome != Done || w.show("main", "b.txt") != "done" {
				t.Errorf("%+v", ending)
			}
			if !strings.Contains(told, one.told) {
				t.Errorf("told %.300q", told)
			}
			for _, e := range server.Journal() {
				if e.Refused != "" {
					t.Errorf("a strict server refused request %d: %s", e.Seq, e.Refused)
				}
			}
			path := TranscriptPath(w.hub.State(), "run", "worker-1")
			for _, err := range ReadTranscript(path) {
				if err != nil {
					t.Error(err)
				}
			}
			if data, err := os.ReadFile(path); err != nil || !utf8.Valid(data) {
				t.Errorf("the transcript: %v", err)
			}
			w.noWorkspaceLeft()
		})
	}
}

// walled is a shelter of real cells, bounded before anything runs in them.
type walled struct {
	*cell.Cells
	env    []string
	person string
}

func (w walled) Open(in RoomInput) (Room, error) {
	return w.Cells.Open(cell.Place{Dir: in.Dir, Seen: "/workspace", Scratch: in.Scratch, Read: in.Read, Person: w.person, Env: w.env})
}

func (walled) Seen(string) string { return "/workspace" }

// sheltered is a worker whose commands run in a sandbox. What destroys runs there or
// not at all.
func (w *world) sheltered(t *testing.T, mind Mind) (worker *Worker, person string) {
	t.Helper()
	limits := cell.Limits{Limits: proc.Limits{Memory: 128 << 20, Processes: 60}, FileSize: 64 << 20}
	cells, err := cell.New(t.Context(), cell.Options{Host: proc.NewHost(os.Environ()), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	if !cells.Sandboxed() || !strings.Contains(cells.String(), "processes") || !strings.Contains(cells.String(), "memory") {
		t.Skipf("no sandbox with bounds here, and this does not run bare: %s", cells)
	}
	worker, person = w.worker(mind), t.TempDir()
	worker.Workspaces.Shelter = walled{cells, worker.Env, person}
	return worker, person
}

// TestAWorkerReachesNothingBeyondItsWorkspace: a model that kills, deletes, forks,
// fills the memory, and writes to .git, ~/.ssh, /proc and through links, by its shell
// and by its tools, harms nothing but its own files, and its hand-off lands.
func TestAWorkerReachesNothingBeyondItsWorkspace(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "one\n"})
	outside := t.TempDir()
	write(t, outside, "sentinel", "untouched\n")
	commands := []string{
		"kill -9 -1; true", "pkill -9 -f greenward; pkill -9 sleep; killall -9 agents.test; true",
		"rm -rf " + outside + " " + w.dir + " ~/../* /etc /usr --no-preserve-root; rm -rf /; true",
		"echo x >" + outside + "/sentinel; echo x >" + filepath.Join(w.dir, "HEAD") + "; true",
		"mkdir -p ~/.ssh && echo evil >~/.ssh/authorized_keys; echo evil >/root/.ssh/authorized_keys; true",
		"echo 1 >/proc/sys/kernel/panic; echo b >/proc/sysrq-trigger; echo -1000 >/proc/1/oom_score_adj; true",
		"f() { f & f & }; f 2>/dev/null; sleep 0.2; true",
		"head -c 1000000000 /dev/zero | tail >/dev/null; true",
		"ln -s " + outside + " out; echo x >out/sentinel; ln -s /etc/passwd passwd; echo x >>passwd; rm -f out passwd; true",
		"printf '[core]\n\tfsmonitor = touch " + outside + "/ran\n\thooksPath = hooks\n' >>.git/config; mkdir -p hooks; printf '#!/bin/sh\ntouch " + outside + "/ran\n' >hooks/post-checkout; chmod +x hooks/*; true",
		"head -c 100000000 /dev/zero >filler; rm -f filler; rm -rf hooks; true",
	}
	files := []model.Message{
		use("write", args{"path": filepath.Join(outside, "sentinel"), "content": "x"}, "write", args{"path": "../../sentinel", "content": "x"}, "write", args{"path": ".git/hooks/pre-commit", "content": "x"}),
		use("shell", args{"command": "ln -s " + outside + " away"}, "write", args{"path": "away/sentinel", "content": "x"}, "edit", args{"path": "away/sentinel", "old_str": "untouched", "new_str": "x"}, "read", args{"path": "away/sentinel"}, "shell", args{"command": "rm away"}),
	}
	replies := files
	for _, command := range commands {
		replies = append(replies, shell(command))
	}
	replies = append(replies, shell("echo still here >b.txt"), done("Still here"))
	var results []string
	client := script(func(r model.Request) model.Message {
		results = results[:0]
		for _, m := range r.Messages {
			if m.Role == model.Tool {
				results = append(results, m.Text)
			}
		}
		return replies[min(turns(r), len(replies)-1)]
	})
	worker, person := w.sheltered(t, modelMind(client, w.now))
	if err := os.Mkdir(filepath.Join(person, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, person, ".ssh/authorized_keys", "mine\n")
	sentinel, err := proc.Start(t.Context(), proc.Command{Name: "sleep", Args: []string{"3333"}, Env: worker.Env, Timeout: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer sentinel.Kill()
	task := w.addTask(Task{ID: "run/a"})
	before, head := w.git("for-each-ref"), w.main()
	worker.Transcript = nil
	ending := w.do(worker, task)
	if ending.Outcome != Done || w.show("main", "b.txt") != "still here" || w.show("main", "a.txt") != "one" {
		t.Errorf("%+v; the model was told %q", ending, results)
	}
	if err := syscall.Kill(sentinel.Pid(), 0); err != nil {
		t.Errorf("the process outside is gone: %v", err)
	}
	for name, want := range map[string]string{filepath.Join(outside, "sentinel"): "untouched\n", filepath.Join(person, ".ssh", "authorized_keys"): "mine\n"} {
		if data, err := os.ReadFile(name); err != nil || string(data) != want {
			t.Errorf("%s holds %q, %v", name, data, err)
		}
	}
	if exists(filepath.Join(outside, "ran")) {
		t.Error("what it wrote into .git was run outside")
	}
	if h := w.handoff(ending.Landed); !strings.Contains(strings.Join(h.Notes, "; "), "ran out of memory") {
		t.Errorf("A14: the hand-off says nothing of memory: %q", h.Notes)
	}
	after := strings.ReplaceAll(w.git("for-each-ref"), string(w.main()), string(head))
	for line := range strings.Lines(before) {
		if !strings.Contains(after, strings.TrimSpace(line)) {
			t.Errorf("a ref is gone or moved: %s", line)
		}
	}
	for _, refused := range results[:3] {
		if !strings.HasPrefix(refused, "error: ") {
			t.Errorf("a tool wrote outside: %q", refused)
		}
	}
	if told := strings.Join(results, "\n"); strings.Contains(told, "untouched") || !strings.Contains(told, "out of memory") {
		t.Errorf("it read outside, or is not told of its memory: %q", told)
	}
	w.git("fsck", "--strict")
	w.noWorkspaceLeft()
}

// TestA14TheHandoffSaysOutOfMemory: a worker that ends by its memory limit, model or
// command, is handed off with that as the reason that its planner reads.
func TestA14TheHandoffSaysOutOfMemory(t *testing.T) {
	const glutton = "head -c 1000000000 /dev/zero | tail >/dev/null; exit 3"
	for name, mind := range map[string]func(w *world) Mind{
		"a model": func(w *world) Mind {
			return modelMind(steps(shell(glutton), use("hand_off", args{"outcome": "blocked", "summary": "it does not work"})), w.now)
		},
		"a command": func(*world) Mind { return &CommandMind{Argv: []string{"sh", "-c", glutton}} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			worker, _ := w.sheltered(t, mind(w))
			ending := w.do(worker, w.addTask(Task{ID: "run/a"}))
			if h := w.handoff(ending.Landed); ending.Outcome == Done || !strings.Contains(strings.Join(h.Notes, "; "), "ran out of memory") {
				t.Errorf("%s, %q", ending.Outcome, h.Notes)
			}
		})
	}
}

// TestA55NoKeyIsReached: whatever a worker looks at in its cell, environments,
// processes, remotes and settings of git, no key of greenward's is there; nor does
// one that it prints reach the transcript.
func TestA55NoKeyIsReached(t *testing.T) {
	const key = "sk-live-0123456789abcdef"
	t.Setenv("OPENAI_API_KEY", key)
	w := newWorld(t, nil)
	gittest.Git(t, w.dir, "config", "http.extraHeader", "Authorization: Bearer "+key)
	gittest.Git(t, w.dir, "remote", "add", "origin", "https://x:"+key+"@example.invalid/hub")
	var results string
	client := script(func(r model.Request) model.Message {
		if turns(r) == 0 {
			return shell("env; cat /proc/self/environ /proc/*/environ /proc/*/cmdline; ps auxe; git remote -v; git config -l --show-origin; git push 2>&1; cat .git/config .git/objects/info/alternates; for d in $(cat .git/objects/info/alternates); do cat $d/../config; done; true")
		}
		results = last(r)
		return done("Looked around")
	})
	worker, _ := w.sheltered(t, modelMind(client, w.now))
	if ending := w.do(worker, w.addTask(Task{ID: "run/a"})); ending.Landed.IsZero() || !strings.Contains(results, "PATH=") {
		t.Fatalf("%+v, %q", ending, results)
	}
	if strings.Contains(results, "sk-live") {
		t.Errorf("the key is reached:\n%s", results)
	}
}

// What requests cost that came to nothing is in the transcript: the next life of the run
// counts it, and whoever reads the end learns the server's own words.
func TestA53WhatWasAskedInVainIsCountedAndTold(t *testing.T) {
	for class, cut := range map[model.Class]Cut{model.Context: CutContext, model.Filtered: CutDecline, model.Invalid: CutInvalid, model.Network: ""} {
		t.Run(string(class), func(t *testing.T) {
			state := t.TempDir()
			transcript, err := OpenTranscript(TranscriptInput{State: state, Run: "run", Agent: "w", Now: gittest.Clock()})
			if err != nil {
				t.Fatal(err)
			}
			if err := transcript.Add(Event{Kind: EventStart, Role: "worker", Task: "run/a", Claim: "c"}); err != nil {
				t.Fatal(err)
			}
			l := bench(failing{&model.Error{Class: class, Message: "no tools here", Spent: model.Usage{Prompt: 7, Completion: 2}}}, Limits{})
			l.Transcript = transcript
			got, err := l.Run(t.Context(), "go")
			if got != cut || (err != nil) != (cut == "") {
				t.Fatalf("%q, %v", got, err)
			}
			if told := l.because(got); cut != "" && (!strings.HasPrefix(string(told), string(cut)) || !strings.Contains(string(told), "no tools here")) {
				t.Errorf("told %q", told)
			}
			if err := transcript.Close(); err != nil {
				t.Fatal(err)
			}
			spent, err := (&Meter{State: state}).Spent("run")
			if err != nil || spent.Total() != l.Spent().Total() || spent.Prompt < 7 {
				t.Errorf("the transcript counts %+v, the conversation %+v (%v)", spent, l.Spent(), err)
			}
			lines, err := os.ReadFile(TranscriptPath(state, "run", "w"))
			if err != nil {
				t.Fatal(err)
			}
			if last, err := LastEpisode(TranscriptPath(state, "run", "w")); err != nil || last.Replies != 0 || len(last.Spent) == 0 {
				t.Errorf("the last life is %+v (%v): %s", last, err, lines)
			}
		})
	}
}
