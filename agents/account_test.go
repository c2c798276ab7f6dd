package agents

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"greenward/agents/cli"
	"greenward/agents/model"
	"greenward/internal/gittest"
)

func TestPrices(t *testing.T) {
	prices := Prices{"gpt-5.2": {In: 1.25, Cached: 0.125, Out: 10}, "gpt-5": {In: 1, Out: 1}}
	used := model.Usage{Prompt: 1_000_000, Cached: 400_000, Completion: 100_000, Reasoning: 50_000}
	for name, want := range map[string]float64{"gpt-5.2": 0.75 + 0.05 + 1, "gpt-5.2-2026-01-01": 1.8, "gpt-5": 1.1, "gpt-5.20": 0} {
		got := prices.Sum(used, name)
		if math.Abs(got.USD-want) > 1e-9 || (got.Unpriced == 0) != (want > 0) {
			t.Errorf("%s: %.6f USD, %d without a price; want %.6f", name, got.USD, got.Unpriced, want)
		}
	}
}

// A budget ends what it covers and nothing else; what earlier lives spent counts.
func TestBudgetsCoverRunAndSlice(t *testing.T) {
	state := t.TempDir()
	earlier, err := OpenTranscript(TranscriptInput{State: state, Run: "run", Agent: "w", Now: gittest.Clock()})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []Event{
		{Kind: EventStart, Task: "run/css/a"},
		{Kind: EventReply, Model: "m", Usage: &model.Usage{Prompt: 30}},
		{Kind: EventStart, Task: "run/b"},
		{Kind: EventReply, Model: "m", Usage: &model.Usage{Prompt: 10}},
	} {
		if err := earlier.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	a := &Account{Budget: Budget{Tokens: 100}, Slice: 0.5, Meter: &Meter{State: state}}
	if err := a.Over("run/css/x"); err != nil {
		t.Fatal(err)
	}
	ask := func(owner string) error {
		_, err := a.Client(steps(use("x", args{})), owner, false).Complete(t.Context(), model.Request{}) // 15 tokens
		return err
	}
	if err := errors.Join(ask("run/css/x"), ask("run/css/y")); err != nil {
		t.Fatal(err)
	}
	err = ask("run/css/z") // 60 of 50
	if spent, ok := errors.AsType[*BudgetError](err); !ok || spent.Path != "run/css" || spent.Run() || !errors.Is(err, ErrBudget) {
		t.Errorf("a slice that has spent its share: %v", err)
	}
	if err := errors.Join(ask("run/b"), ask("run/c")); err != nil {
		t.Errorf("another task: %v", err)
	}
	err = ask("run/d") // 100 of 100
	if spent, ok := errors.AsType[*BudgetError](err); !ok || spent.Path != "run" || !spent.Run() {
		t.Errorf("a run that has spent its budget: %v", err)
	}
	if err := ask("other/a"); err != nil {
		t.Errorf("another run: %v", err)
	}
	if sum, err := a.Spent("run/css"); err != nil || sum.Total() != 60 || sum.Unpriced != 60 || sum.Replies != 3 {
		t.Errorf("spent %+v, %v", sum, err)
	}
}

// Under a budget of money many agents together overdraw by no more than what is
// in the air.
func TestBudgetOfManyAgents(t *testing.T) {
	a := &Account{Prices: Prices{"scripted": {In: 1e6, Out: 1e6}}, Budget: Budget{USD: 1500}} // 15 USD a reply
	var wg sync.WaitGroup
	for i := range 50 {
		client := a.Client(steps(use("x", args{})), fmt.Sprintf("run/task-%d", i), false)
		wg.Go(func() {
			for {
				if _, err := client.Complete(t.Context(), model.Request{}); err != nil {
					if !errors.Is(err, ErrBudget) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	if sum, err := a.Spent("run"); err != nil || sum.USD < 1500 || sum.USD > 1500+50*15 {
		t.Errorf("spent %v, %v", sum.USD, err)
	}
}

// A worker whose budget is used up leaves its task open and its work rescued.
func TestWorkerStopsCleanlyAtItsBudget(t *testing.T) {
	w := newWorld(t, nil)
	task := w.addTask(Task{ID: "run/a"})
	mind := modelMind(steps(use("write", args{"path": "half.txt", "content": "half\n"}), use("read", args{"path": "half.txt"})), w.now)
	mind.Account = &Account{Budget: Budget{Tokens: 30}}
	worker := w.worker(mind)
	claim, err := worker.Claims.Take(t.Context(), task.ID, worker.Agent)
	if err != nil {
		t.Fatal(err)
	}
	ending, err := worker.Do(t.Context(), task, claim)
	if !errors.Is(err, ErrBudget) || len(ending.Rescued) != 1 || w.show(string(ending.Rescued[0]), "half.txt") != "half" {
		t.Errorf("ending %+v, %v", ending, err)
	}
	if _, open, err := worker.tip(task.ID); err != nil || !open {
		t.Errorf("the task is closed (%v)", err)
	}
	w.noWorkspaceLeft()
}

// A model that the server calls by another name has the price of the one that was
// asked for, in this life and in what the transcripts tell of earlier ones.
func TestPriceOfTheModelThatWasAskedFor(t *testing.T) {
	state := t.TempDir()
	tr, err := OpenTranscript(TranscriptInput{State: state, Run: "run", Agent: "w", Now: gittest.Clock()})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []Event{
		{Kind: EventStart, Task: "run/a", Model: "mine"},
		{Kind: EventReply, Model: "vendor/mine:latest", Usage: &model.Usage{Prompt: 1_000_000}},
	} {
		if err := tr.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	a := &Account{Prices: Prices{"mine": {In: 2}}, Meter: &Meter{State: state}}
	asked := script(func(model.Request) model.Message { return use("x", args{}) })
	if _, err := a.Client(asked, "run/a", false).Complete(t.Context(), model.Request{Model: "mine"}); err != nil {
		t.Fatal(err)
	}
	if sum, err := a.Spent("run"); err != nil || sum.Unpriced != 0 || sum.USD < 2 || sum.Replies != 2 {
		t.Errorf("spent %+v, %v", sum, err)
	}
}

// Money is bounded though the price of a model is not known: its tokens count at the
// dearest price that is. They are never told to have cost nothing.
func TestUnknownPricesAreBoundedByTheDearest(t *testing.T) {
	a := &Account{Prices: Prices{"known": {In: 1, Out: 10}}, Budget: Budget{USD: 5}}
	if err := a.Charge("run/a", model.Usage{Prompt: 499_999}, "unknown"); err != nil {
		t.Fatal(err)
	}
	if err := a.Over("run/a"); err != nil {
		t.Errorf("4.99 USD at the most: %v", err)
	}
	if err := a.Charge("run/b", model.Usage{Prompt: 1}, "unknown"); err != nil {
		t.Fatal(err)
	}
	if err := a.Over("run/a"); !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), "price is not known") {
		t.Errorf("5 USD at the most: %v", err)
	}
	if sum, err := a.Spent("run"); err != nil || sum.Unpriced != 500_000 || sum.USD != 0 {
		t.Errorf("spent %+v, %v", sum, err)
	}
}

// What a command-line agent says that it used is charged to its task, slice and run,
// priced, metered, and held against the budget while it runs: it is ended in the
// middle, its work rescued, its task left open.
func TestACommandIsChargedAndStopsAtItsBudget(t *testing.T) {
	w := newWorld(t, nil)
	task := w.addTask(Task{ID: "run/a"})
	const turn = `echo '{"type":"turn.completed","usage":{"input_tokens":1000000,"cached_input_tokens":500000,"output_tokens":100000}}'`
	account := &Account{Prices: Prices{"m": {In: 1, Cached: 0.5, Out: 10}}, Budget: Budget{USD: 3}}
	worker := w.worker(&CommandMind{Argv: []string{"sh", "-c", "echo half >half.txt; " + turn + "; " + turn + "; sleep 600; echo late >half.txt"}, Model: "m", Account: account, Listen: listen})
	claim, err := worker.Claims.Take(t.Context(), task.ID, worker.Agent)
	if err != nil {
		t.Fatal(err)
	}
	ending, err := worker.Do(t.Context(), task, claim)
	if !errors.Is(err, ErrBudget) || len(ending.Rescued) != 1 || w.show(string(ending.Rescued[0]), "half.txt") != "half" {
		t.Errorf("ending %+v, %v", ending, err)
	}
	if sum, err := account.Spent("run"); err != nil || math.Abs(sum.USD-3.5) > 1e-9 || sum.Total() != 2_200_000 {
		t.Errorf("spent %+v, %v", sum, err)
	}
	metered, err := (&Meter{State: w.hub.State()}).By("run")
	if sum := account.Prices.Total(metered); err != nil || math.Abs(sum.USD-3.5) > 1e-9 {
		t.Errorf("the transcripts tell %+v, %v", sum, err)
	}
	if _, open, err := worker.tip(task.ID); err != nil || !open {
		t.Errorf("the task is closed (%v)", err)
	}
	// Nothing of that run is begun any more.
	if _, err := worker.Do(t.Context(), task, claim); !errors.Is(err, ErrBudget) {
		t.Errorf("begun again: %v", err)
	}
	w.noWorkspaceLeft()
}

func listen(used func(prompt, cached, completion int64)) Told { return cli.Listen(used) }
