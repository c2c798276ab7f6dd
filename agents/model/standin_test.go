package model_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greenward/agents/model"
	"greenward/internal/modeltest"
)

// standIn starts the model server that others wrote and gives its address.
func standIn(t *testing.T) string {
	t.Helper()
	home := os.Getenv("GREENWARD_STANDIN")
	if home == "" {
		t.Skip("NOT RUN: GREENWARD_STANDIN is not set; with node 20 and npm, set it to a directory and let AIMOCK_HOME=DIRECTORY internal/modeltest/standin/start.sh --install fill it")
	}
	fixtures, err := filepath.Abs("../../internal/modeltest/standin/fixtures.json")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		s := modeltest.StandIn{Home: home, Fixtures: fixtures, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, Log: t.Output()}
		ended <- s.Run(ctx, func(at string) { address <- at })
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case at := <-address:
		return at
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return ""
}

// The A cases of servers before one that is not ours: what it sends is classed, tried
// again or handed over as before our own, on both wires.
func TestAStandInServer(t *testing.T) {
	at := standIn(t)
	for _, wire := range []string{"chat", "responses"} {
		c, err := model.New(model.Options{BaseURL: at + "/v1", Now: time.Now, Key: model.NewSecret("sk-test-key"), Model: "m", Wire: wire, Tries: 3})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(text string, more ...model.Message) (model.Reply, error) {
			return c.Complete(t.Context(), model.Request{
				Messages: append([]model.Message{{Role: model.User, Text: "case: " + text}}, more...),
				Tools:    []model.ToolDef{{Name: "read", Description: "reads"}},
			})
		}
		for _, one := range []struct {
			name, text string
			class      model.Class // "": it replies
			reply      func(r model.Reply) bool
		}{
			{"A45", "bad arguments", "", func(r model.Reply) bool {
				return len(r.Message.Calls) == 1 && r.Message.Calls[0].Fault != "" && r.Message.Calls[0].Arguments == "{}"
			}},
			{"two calls", "two tools", "", func(r model.Reply) bool {
				return len(r.Message.Calls) == 2 && r.Message.Calls[1].Arguments == `{"path":"b"}` && r.Message.Calls[0].ID != r.Message.Calls[1].ID && r.Stop == model.StopTools
			}},
			{"A47", wire + " rate me", "", func(r model.Reply) bool { return r.Message.Text == "third time lucky" && r.Tries == 3 }},
			{"A47 without money", "out of quota", model.Billing, nil},
			{"5xx", "server boom", model.Overload, nil},
			{"A53", "too long", model.Context, nil},
			{"length", "finish length", "", func(r model.Reply) bool { return r.Stop == model.StopLength && r.Message.Text == "truncated answ" }},
			// On Responses this server says "failed" and not why.
			{"filtered", "filtered", map[string]model.Class{"chat": model.Filtered, "responses": model.Overload}[wire], nil},
			{"A49", wire + " cut me off", "", func(r model.Reply) bool { return r.Message.Text == "whole this time" && r.Tries == 2 }},
			{"usage", "count me", "", func(r model.Reply) bool {
				return r.Usage.Prompt == 120 && r.Usage.Completion == 8 && !r.Usage.Estimated
			}},
		} {
			reply, err := ask(one.text)
			refused, _ := errors.AsType[*model.Error](err)
			switch {
			case one.class != "" && (refused == nil || refused.Class != one.class):
				t.Errorf("%s, %s: %v, want an error of the class %s", wire, one.name, err, one.class)
			case one.class == "" && (err != nil || !one.reply(reply)):
				t.Errorf("%s, %s: %+v, %v", wire, one.name, reply, err)
			}
			if refused != nil && strings.Contains(refused.Error(), "sk-test-key") {
				t.Errorf("%s, %s: the key is shown: %v", wire, one.name, refused)
			}
		}
		// What it sent is taken back, with the results.
		called, err := ask("two tools")
		if err != nil {
			t.Fatal(err)
		}
		results := []model.Message{called.Message}
		for _, call := range called.Message.Calls {
			results = append(results, model.Message{Role: model.Tool, CallID: call.ID, Text: "text"})
		}
		if reply, err := ask("two tools", results...); err != nil || reply.Message.Text != "both were read" {
			t.Errorf("%s: %+v, %v", wire, reply, err)
		}
	}
	wrong, err := model.New(model.Options{BaseURL: at + "/v1", Now: time.Now, Key: model.NewSecret("sk-wrong"), Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = wrong.Complete(t.Context(), model.Request{Messages: []model.Message{{Role: model.User, Text: "case: count me"}}})
	if refused, ok := errors.AsType[*model.Error](err); !ok || refused.Class != model.Auth || !refused.Fatal() {
		t.Errorf("a wrong key: %v", err)
	}
}
