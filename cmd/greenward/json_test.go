package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// jsonCommand is a command, its exit code, and the keys of what it prints with --json:
// of a list's elements after a dot. Where lines is set it prints one object a line.
type jsonCommand struct {
	args  string
	code  int
	keys  string
	lines bool
}

// Every command's JSON has the keys of the contract; what is absent is null and never
// an empty string; lists are never null; commits are full ids, times RFC 3339 in UTC.
func TestJSONKeepsTheContract(t *testing.T) {
	t.Parallel()
	p := newKillPlace(t)
	place := func(args string, code int) []map[string]any {
		t.Helper()
		return p.documents(args, code)
	}
	const entry = "entry head state landed reason paths with detail at lane evidence by"
	const lag = "green main behind lag_seconds cause stale"
	p.hand("good", map[string]string{"good.txt": "good\n"})
	p.hand("meets", map[string]string{"list.txt": "begin\nmeets\nend\n"})
	p.hand("bad", map[string]string{"broken": "x\n"})
	p.hand("later", map[string]string{"list.txt": "begin\nlater\nend\n"})
	promoted := 0
	for _, c := range []jsonCommand{
		{args: "green verify", code: 1, keys: "commit valid trust faults evidence"}, // nothing is promoted yet
		{args: "green status", keys: lag + " hold debt running ignored_orders"},
		{args: "queue", keys: "frozen held entries lanes entries." + strings.ReplaceAll(entry, " ", " entries.") + " entries.since"},
		{args: "submit main --name again", keys: "entry ref head"},
		{args: "land", keys: "main frozen held entries entries." + strings.ReplaceAll(entry, " ", " entries.")},
		{args: "green snapshot", keys: "snapshot verdict repair green promoted culprits excluded repairs runs hold alerts action detail refused culprits.commit culprits.check culprits.confidence culprits.kind culprits.subject excluded.commit excluded.reason"},
		{args: "green status", keys: lag + " hold debt running ignored_orders debt.commit debt.reason debt.repair debt.entry debt.state debt.since debt.age_seconds"},
		{args: "green why", keys: lag + " blocker blocks detail action commit calibration refused"},
		{args: "run " + killGoal, keys: "run state landed ejected handoffs green cost detail"},
		{args: "land", keys: "main frozen held entries"},
		{args: "green log", keys: "commit at snapshot repair by lane evidence verdict culprits excluded repairs", lines: true},
		{args: "green diff green~1 green", keys: "a b in out"},
		{args: "green verify", keys: "commit valid trust faults evidence"},
		{args: "green watch-stale --after 100h", keys: "stale behind lag_seconds green main"},
		{args: "green rollback green~1", keys: "green to hold"},
		{args: "green release", keys: "order arg reason"},
		{args: "green hold because", keys: "order arg reason"},
		{args: "green snapshot", keys: "snapshot verdict repair green promoted culprits excluded repairs runs hold alerts action detail refused"},
		{args: "queue freeze because", keys: "order arg reason"},
		{args: "queue thaw", keys: "order arg reason"},
		{args: "tasks", keys: "tasks malformed"},
		{args: "handoffs", keys: "commit at task outcome agent notes", lines: true},
		{args: "runs", keys: "runs runs.run runs.goal runs.state runs.open runs.handoffs runs.started runs.ended runs.holder runs.why runs.health"},
		{args: "top", keys: "agents runs agents.run agents.agent agents.role agents.task agents.since agents.last agents.replies agents.tokens agents.usd agents.doing agents.state agents.away"},
		{args: "log -n 5", keys: "run at agent kind", lines: true},
		{args: "why main", keys: "subject kind story story.at story.what"},
		{args: "audit", keys: "commits unchecked missing mismatches"},
		{args: "fsck", keys: "ok findings"},
		{args: "doctor", keys: "ok checks checks.name checks.state checks.detail checks.cost"},
		{args: "--version", keys: "version revision modified go"},
	} {
		docs := place(c.args, c.code)
		if len(docs) == 0 || len(docs) > 1 && !c.lines {
			t.Errorf("%s: %d documents", c.args, len(docs))
			continue
		}
		for _, d := range docs {
			for key := range strings.FieldsSeq(c.keys) {
				hasKey(t, c.args, d, key)
			}
			wellFormed(t, c.args, "", d)
		}
		if c.args == "green snapshot" && docs[0]["promoted"] == true {
			promoted++
		}
	}
	if promoted == 0 {
		t.Error("no snapshot was promoted: the documents show little")
	}
	for _, ref := range []string{"queue", "green"} { // the log as git has it
		text := gittest.Git(t, p.hub, "log", "--format=%b", "refs/greenward/log/"+ref)
		for _, d := range parsed(t, "log/"+ref, text) {
			for _, key := range []string{"state", "at", "lane", "evidence", "by"} {
				hasKey(t, "log/"+ref, d, key)
			}
			wellFormed(t, "log/"+ref, "", d)
			if ref == "green" && d["state"] == "promoted" && len(d["evidence"].([]any)) == 0 {
				t.Errorf("a promotion without evidence: %v", d)
			}
		}
	}
}

// hand hands in a change from main.
func (p *killPlace) hand(name string, files map[string]string) {
	p.Helper()
	gittest.Git(p, p.hub, "update-ref", "refs/heads/queue/"+name, gittest.Git(p, p.hub, "rev-parse", "main"))
	gittest.Commit(p, p.hub, "queue/"+name, name, files)
}

// documents is what a command prints with --json.
func (p *killPlace) documents(args string, code int) []map[string]any {
	p.Helper()
	words := strings.Fields(args)
	if strings.HasPrefix(args, "run ") {
		words = []string{"run", killGoal}
	}
	var out, problems bytes.Buffer
	result, err := proc.Run(p.Context(), proc.Command{
		Name: p.program, Args: append([]string{"-C", p.hub, "--json"}, words...), Dir: p.TempDir(), Stdout: &out, Stderr: &problems, Timeout: 3 * time.Minute,
		Env: p.host.Only("PATH", "HOME", "TMPDIR", "GOCACHE", "GOPATH", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
	})
	if err != nil {
		p.Fatal(err)
	}
	if result.Code != code {
		p.Errorf("%s: exit code %d, want %d\n%s%s", args, result.Code, code, out.String(), problems.String())
	}
	return parsed(p.T, args, out.String())
}

func parsed(t *testing.T, what, text string) []map[string]any {
	t.Helper()
	var docs []map[string]any
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		d := map[string]any{}
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Errorf("%s: %v: %s", what, err, line)
			continue
		}
		docs = append(docs, d)
	}
	return docs
}

// hasKey wants a key, or a key of every element of a list; a list that shows none is no
// proof, so that one element at least must be there.
func hasKey(t *testing.T, what string, d map[string]any, key string) {
	t.Helper()
	list, below, nested := strings.Cut(key, ".")
	value, ok := d[list]
	if !ok {
		t.Errorf("%s: there is no %q in %v", what, list, d)
	}
	if !nested {
		return
	}
	all, _ := value.([]any)
	if len(all) == 0 {
		t.Errorf("%s: %q is %v, and something was to be seen in it", what, list, value)
	}
	for _, one := range all {
		if _, ok := one.(map[string]any)[below]; !ok {
			t.Errorf("%s: there is no %q in %v", what, key, one)
		}
	}
}

// lists are the keys whose values are never null.
func lists() []string {
	return []string{
		"entries", "paths", "culprits", "excluded", "repairs", "alerts", "debt", "faults", "mismatches", "findings", "evidence", "tasks", "malformed", "runs",
		"health", "agents", "lanes", "refused", "notes", "story", "checks", "in", "out", "after", "strays",
	}
}

// wellFormed holds the rules that all JSON keeps.
func wellFormed(t *testing.T, what, key string, v any) {
	t.Helper()
	commit, moment := regexp.MustCompile(`^[0-9a-f]{40}$`), regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)
	switch v := v.(type) {
	case nil:
		if slices.Contains(lists(), key) {
			t.Errorf("%s: the list %q is null", what, key)
		}
	case string:
		switch {
		case v == "":
			t.Errorf("%s: %q is an empty string: what is absent is null", what, key)
		case slices.Contains([]string{"commit", "head", "snapshot", "green", "main", "landed", "to", "a", "b", "onto", "revision"}, key) && !commit.MatchString(v):
			t.Errorf("%s: %q is %q, which is no full id", what, key, v)
		case slices.Contains([]string{"at", "since", "last", "started", "ended", "finished"}, key) && !moment.MatchString(v):
			t.Errorf("%s: %q is %q, which is no time in UTC", what, key, v)
		case slices.Contains([]string{"dir", "hub"}, key) && !filepath.IsAbs(v):
			t.Errorf("%s: %q is %q, which is no absolute path", what, key, v)
		}
	case []any:
		for _, one := range v {
			wellFormed(t, what, key+"[]", one)
		}
	case map[string]any:
		for name, one := range v {
			if name != "args" && name != "message" { // of a model's own call
				wellFormed(t, what, name, one)
			}
		}
	case bool, float64:
	default:
		t.Errorf("%s: %q is %s", what, key, fmt.Sprintf("%T", v))
	}
}
