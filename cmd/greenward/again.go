package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/workflows/again"
)

// againDoc is what replay --again prints.
type againDoc struct {
	Run   string `json:"run"`
	Agent string `json:"agent"`
	Task  string `json:"task"`
	again.Comparison
}

// rerun runs the newest conversation of a worker that a query picks once more, with its
// recorded replies, in a copy of the hub that is gone afterwards.
func (a *app) rerun(ctx context.Context, o logOptions) (err error) {
	hub, events, run, err := a.recorded(ctx, &o)
	if err != nil {
		return err
	}
	record, err := again.Last(events)
	if err != nil {
		return usagef("replay --again: %s cannot be run again: %v", o.query.Agent, err)
	}
	text, err := hub.File(record.Start.Base, agents.TaskPath(record.Start.Task))
	if err != nil {
		return fmt.Errorf("read the task as it was on %s: %w", record.Start.Base.Short(), err)
	}
	task, err := agents.ParseTask(record.Start.Task, text)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(a.host.Get("TMPDIR"), "greenward-again-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := a.rehearsal(ctx, hub, filepath.Join(dir, "hub.git"), record)
	if err != nil {
		return err
	}
	c.client = again.Recorded(slices.Values(record.Events))
	worker, err := c.worker(record.Start.Agent, run)
	if err != nil {
		return err
	}
	worker.Mind = &agents.ModelMind{Client: c.client, Model: record.Start.Model, Limits: c.limits(), Now: a.now}
	place := filepath.Join("work", run, record.Start.Agent)
	got, err := again.Run(ctx, again.Input{
		Record: record, Task: task, Worker: worker,
		Events: func() ([]agents.Event, error) {
			return readAll(agents.TranscriptPath(c.hub.State(), run, record.Start.Agent))
		},
		Places: []string{filepath.Join(hub.State(), place), filepath.Join(c.hub.State(), place)},
	})
	if err := errors.Join(err, worker.Transcript.Close()); err != nil {
		return err
	}
	if err := a.print(againDoc{run, record.Start.Agent, task.ID, got}, func(w io.Writer) {
		line(w, "%s on %s: %s", record.Start.Agent, task.ID, printable(got.String()))
	}); err != nil {
		return err
	}
	if !got.Same {
		return errNo
	}
	return nil
}

// recorded is the transcript that a query picks, the newest where several runs have an
// agent of that name.
func (a *app) recorded(ctx context.Context, o *logOptions) (hub *git.Hub, events []agents.Event, run string, err error) {
	if hub, err = git.OpenHub(ctx, git.HubInput{Dir: orElse(a.dir, "."), Remote: a.remote, Host: a.host}); err != nil {
		return nil, nil, "", err
	}
	if o.query.From, err = a.moment("since", o.since); err != nil {
		return nil, nil, "", err
	}
	if o.query.To, err = a.moment("until", o.until); err != nil {
		return nil, nil, "", err
	}
	files, err := o.query.Transcripts(hub.State())
	if err != nil {
		return nil, nil, "", err
	}
	for _, file := range files {
		var own []agents.Event
		started := false
		for e, err := range o.query.Events(file) {
			if err != nil {
				return nil, nil, "", err
			}
			begins := e.Kind == agents.EventStart && e.Role == "worker"
			if begins {
				own = own[:0] // of the newest alone
			}
			if started = started || begins; started || len(own) == 0 {
				own = append(own, e)
			}
		}
		if len(own) > 0 && (len(events) == 0 || own[len(own)-1].At.After(events[len(events)-1].At)) {
			events, run = own, runOf(file)
		}
	}
	if len(events) == 0 {
		return nil, nil, "", usagef("no agent of that name has a transcript on this host; they lie in %s", filepath.Join(hub.State(), "runs"))
	}
	return hub, events, run, nil
}

// rehearsal is a crew on a copy of a hub whose main is where a record began.
func (a *app) rehearsal(ctx context.Context, hub *git.Hub, dir string, record again.Record) (*crew, error) {
	policy, err := a.firstPolicy(ctx, hub)
	if err != nil {
		return nil, err
	}
	main, err := git.Branch(policy.Main)
	if err != nil {
		return nil, err
	}
	repo, err := hub.CloneBare(ctx, dir, record.Start.Base)
	if err != nil {
		return nil, err
	}
	if at, err := repo.Tip(main); err != nil {
		return nil, err
	} else if at.IsZero() {
		if err := repo.Transact(ctx, "begin where a record began", []git.RefUpdate{{Ref: main, New: record.Start.Base}}); err != nil {
			return nil, err
		}
	}
	scratch := *a
	scratch.dir = dir
	e, err := scratch.engines(ctx, false)
	if err != nil {
		return nil, err
	}
	return scratch.hire(ctx, e, record.Start.Model, "")
}

func readAll(path string) (events []agents.Event, err error) {
	for e, err := range agents.ReadTranscript(path) {
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}
