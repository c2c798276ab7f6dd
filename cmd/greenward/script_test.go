package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"greenward/internal/modeltest"
	"greenward/internal/proc"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"greenward":      func() { os.Exit(start()) },
		"scripted-model": func() { os.Exit(serveModel()) },
	})
}

// serveModel is a program of its own, so that it can live in a network namespace:
// it serves killScript, slow enough that agents are met at work, on the address that
// it is given until it is ended.
func serveModel() int {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", os.Args[1])
	if err == nil {
		err = modeltest.New(modeltest.Func(func(r modeltest.Request) modeltest.Reply {
			reply := killScript(r)
			reply.Latency = 300 * time.Millisecond
			return reply
		}), modeltest.Options{Key: "sk-test-key"}).Serve(context.Background(), listener)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// TestScripts runs every testdata/script/<command>_<scenario>.txtar.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			cache, err := os.UserCacheDir()
			if err != nil {
				return err
			}
			home, err := os.UserHomeDir()
			if err != nil {
				return err
			}
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("GOCACHE", cache+"/go-build")
			e.Setenv("GOPATH", home+"/go")
			e.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			e.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
			for _, who := range []string{"AUTHOR", "COMMITTER"} {
				e.Setenv("GIT_"+who+"_NAME", "Ada")
				e.Setenv("GIT_"+who+"_EMAIL", "ada@example.com")
				e.Setenv("GIT_"+who+"_DATE", "2026-11-01T12:00:00Z")
			}
			return os.MkdirAll(e.WorkDir+"/home", 0o755)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code": wantCode, "json": wantJSON, "model": modelServer, "serve": serveHub, "standin": standIn,
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "standin": // a model server that others wrote: internal/modeltest/standin
				return os.Getenv("GREENWARD_STANDIN") != "", nil
			case "overlay":
				return proc.TryOverlay(os.TempDir()) == nil, nil
			}
			return false, fmt.Errorf("there is no condition %q", name)
		},
	})
}

// modelServer starts a scripted model server that wants the key sk-test-key, and
// points the environment at it: model [KEY], with the key that is sent.
func modelServer(ts *testscript.TestScript, _ bool, args []string) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	ts.Check(err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	server := modeltest.New(modeltest.Func(killScript), modeltest.Options{Key: "sk-test-key"})
	go func() { served <- server.Serve(ctx, listener) }()
	ts.Defer(func() {
		stop()
		<-served // it ends because it was told to
	})
	key := "sk-test-key"
	if len(args) > 0 {
		key = args[0]
	}
	ts.Setenv("OPENAI_BASE_URL", "http://"+listener.Addr().String()+"/v1")
	ts.Setenv("OPENAI_API_KEY", key)
}

// serveHub serves a hub until the script ends: serve DIR. SERVED is its address.
func serveHub(ts *testscript.TestScript, _ bool, args []string) {
	said, to := io.Pipe()
	a := &app{
		stdin: strings.NewReader(""), stdout: io.Discard, stderr: to, now: time.Now,
		host: proc.NewHost([]string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}),
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		ended <- a.main(ctx, []string{"-C", ts.MkAbs(args[0]), "serve", "--listen", "127.0.0.1:0"})
		_ = to.Close() // nobody reads on
	}()
	ts.Defer(func() {
		stop()
		<-ended // it ends because it was told to
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		ts.Logf("%s", lines.Text())
		if _, address, ok := strings.Cut(lines.Text(), "serving at "); ok {
			ts.Setenv("SERVED", address)
			go func() {
				for lines.Scan() { // the program must not wait for us
				}
			}()
			return
		}
	}
	ts.Fatalf("serve did not say where it serves")
}

// wantCode runs a command and wants an exact exit code: code 2 greenward land.
func wantCode(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND…")
	}
	var out, problems strings.Builder
	var env []string
	for _, key := range []string{"PATH", "HOME", "GOCACHE", "GOPATH", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "OPENAI_BASE_URL", "OPENAI_API_KEY", "TMPDIR"} {
		env = append(env, key+"="+ts.Getenv(key))
	}
	result, err := proc.Run(context.Background(), proc.Command{Name: args[1], Args: args[2:], Dir: ts.MkAbs("."), Env: env, Stdout: &out, Stderr: &problems, Timeout: 2 * time.Minute})
	ts.Check(err)
	ts.Logf("%s%s", out.String(), problems.String())
	ts.Check(os.WriteFile(ts.MkAbs("out"), []byte(out.String()), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs("err"), []byte(problems.String()), 0o644))
	if want := args[0]; want != regexp.MustCompile(`^\d+`).FindString(want) || result.Code != int(want[0]-'0') {
		ts.Fatalf("exit code %d, want %s", result.Code, want)
	}
}

// standIn starts the model server that others wrote and points the environment at it;
// STANDIN is its address without /v1.
func standIn(ts *testscript.TestScript, _ bool, _ []string) {
	fixtures, err := filepath.Abs("../../internal/modeltest/standin/fixtures.json")
	ts.Check(err)
	ctx, stop := context.WithCancel(context.Background())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		s := modeltest.StandIn{Home: os.Getenv("GREENWARD_STANDIN"), Fixtures: fixtures, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + ts.Getenv("HOME")}}
		ended <- s.Run(ctx, func(at string) { address <- at })
	}()
	select {
	case at := <-address:
		ts.Defer(func() {
			stop()
			ts.Check(<-ended)
		})
		ts.Setenv("STANDIN", at)
		ts.Setenv("OPENAI_BASE_URL", at+"/v1")
		ts.Setenv("OPENAI_API_KEY", "sk-test-key")
	case err := <-ended:
		stop()
		ts.Fatalf("%v", err)
	}
}

// wantJSON holds that the last standard output is one JSON document in which a
// path has a value: json entries.0.state landed. An absent value is null.
func wantJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: json PATH VALUE")
	}
	var doc any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &doc))
	for key := range strings.SplitSeq(args[0], ".") {
		switch at := doc.(type) {
		case map[string]any:
			value, has := at[key]
			if !has {
				ts.Fatalf("%s: there is no %q in the document", args[0], key)
			}
			doc = value
		case []any:
			if key == "len" {
				doc = float64(len(at))
				continue
			}
			n := int(key[0] - '0')
			if n >= len(at) {
				ts.Fatalf("%s: the list has %d elements", args[0], len(at))
			}
			doc = at[n]
		default:
			ts.Fatalf("%s: nothing is below %v", args[0], doc)
		}
	}
	got, err := json.Marshal(doc)
	ts.Check(err)
	if text := strings.Trim(string(got), `"`); (text == args[1]) == neg {
		ts.Fatalf("%s is %s, want %s", args[0], text, args[1])
	}
}
