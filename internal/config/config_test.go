package config

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"

// whole is the sample of the design, key by key.
const whole = `
main: main
green: green
checks:
  - {name: build, run: go build ./..., timeout: 5m}
  - {name: test,  run: go test ./...,  timeout: 15m, report: go-json}   # none | go-json | junit:GLOB | tap
  - {name: lint,  run: staticcheck ./..., required: false, history: false, sandbox: false}
  - {name: e2e,   remote: "CI / e2e"}
queue:
  policy: adaptive        # tolerant | gated | adaptive
  smoke: [build]          # checks before landing in tolerant mode; default none
  error_budget: 25%
  method: rebase
  slots: 2
  embargo: ["Fri 13:00 - Mon 09:00 Europe/Berlin"]
  gate: {max_file: 5MiB, deny: ["**/*.pem"], banned: [], skip: [{rule: markers, paths: ["testdata/**"]}], parse: [{paths: ["**/*.toml"], run: taplo lint -}]}
green:
  schedule: "*/10 * * * *"
  repair: [revert, subset, agent, prefix]
  tags: daily
  stale_after: 2h
  debt_limit: 3
  protected: [.greenward.yml, ".github/**"]
  signers: [ops@example.com ` + key + `]
agents:
  workers: 8
  model: gpt-5.2
  roles:
    planner: {model: gpt-5.2, effort: high}
    worker:  {command: [codex, exec, --json, "-"]}
  sandbox: auto
  limits: {memory: 2GiB, time: 45m, steps: 200, tokens: 2M, output: 64KiB}
  budget: {usd: 200, tokens: 500M}
  providers: [{url: "https://models.example/v1", wire: chat, max_tokens_field: max_tokens, context: 128000,
               prices: {gpt-5.2: {in: 1.25, cached: 0.125, out: 10}}}]
  caches: {GOCACHE: shared, npm: shared}
`

// TestParseWhole proves that the shown values are the defaults, save for what
// is said to be empty.
func TestParseWhole(t *testing.T) {
	got, err := Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Checks = []Check{
		{Name: "build", Run: "go build ./...", Timeout: 5 * time.Minute, Report: "none", Required: true},
		{Name: "test", Run: "go test ./...", Timeout: 15 * time.Minute, Report: "go-json", Required: true},
		{Name: "lint", Run: "staticcheck ./...", Timeout: 15 * time.Minute, Report: "none"},
		{Name: "e2e", Remote: "CI / e2e", Timeout: 15 * time.Minute, Report: "none", Required: true},
	}
	want.Queue.Smoke = []string{"build"}
	want.Queue.PullMethod = "rebase"
	want.Queue.Embargo = []string{"Fri 13:00 - Mon 09:00 Europe/Berlin"}
	want.Queue.Gate.Deny = []string{"**/*.pem"}
	want.Queue.Gate.Skip = []Skip{{Rule: "markers", Paths: []string{"testdata/**"}}}
	want.Queue.Gate.Parse = []Parser{{Paths: []string{"**/*.toml"}, Run: "taplo lint -"}}
	want.Green.Signers = []string{"ops@example.com " + key}
	want.Agents.Model = "gpt-5.2"
	want.Agents.Roles = map[string]Role{
		"planner": {Model: "gpt-5.2", Effort: "high"},
		"worker":  {Command: []string{"codex", "exec", "--json", "-"}},
	}
	want.Agents.Budget = Budget{USD: 200, Tokens: 500_000_000}
	want.Agents.Providers = []Provider{{
		URL: "https://models.example/v1", Wire: "chat", MaxTokensField: "max_tokens", SystemRole: "system", Context: 128_000, Concurrency: 64,
		Prices: map[string]Price{"gpt-5.2": {In: 1.25, Cached: 0.125, Out: 10}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

func TestParseSmall(t *testing.T) {
	changed := func(change func(*Config)) Config {
		c := Default()
		change(&c)
		return c
	}
	for _, tt := range []struct {
		name, file string
		want       Config
	}{
		{"empty", "", Default()},
		{"comments", "# nothing\n---\n# yet\n", Default()},
		{"null", "~", Default()},
		{"checks none", "checks: none", changed(func(c *Config) { c.ChecksNone = true })},
		{"gated by nothing is meant", "checks: none\nqueue: {policy: gated}", changed(func(c *Config) { c.ChecksNone, c.Queue.Policy = true, "gated" })},
		{"green is a branch", "green: stable/1", changed(func(c *Config) { c.Green.Branch = "stable/1" })},
		{"green has a branch", "green: {branch: stable, debt_limit: 0}", changed(func(c *Config) { c.Green.Branch, c.Green.DebtLimit = "stable", 0 })},
		{"a branch that looks like a number", "main: 1.0", changed(func(c *Config) { c.Main = "1.0" })},
		{"a command that looks like a boolean", "checks: [{name: t, run: true}]", changed(func(c *Config) {
			c.Checks = []Check{{Name: "t", Run: "true", Timeout: 15 * time.Minute, Report: "none", Required: true}}
		})},
		{"windows line ends and a mark", "\ufeffmain: trunk\r\ngreen: green\r\n", changed(func(c *Config) { c.Main = "trunk" })},
		{"lists can be emptied", "green: {protected: [], repair: []}", changed(func(c *Config) { c.Green.Protected, c.Green.Repair = nil, nil })},
		{"every", "green: {schedule: '@every 3s'}", changed(func(c *Config) { c.Green.Schedule = "@every 3s" })},
		{"a server has defaults", "agents: {providers: [{url: 'http://127.0.0.1:8080/v1'}]}", changed(func(c *Config) {
			c.Agents.Providers = []Provider{{URL: "http://127.0.0.1:8080/v1", Wire: "chat", MaxTokensField: "max_tokens", SystemRole: "system", Context: 128_000, Concurrency: 64}}
		})},
		{"a peculiar server", `agents: {providers: [{url: "http://127.0.0.1:8080/v1", wire: responses, stream: false, stream_usage: false, reasoning: true, concurrency: 4, max_tokens: 16000, system_role: user, parallel_calls: false, tool_choice: true}], budget: {slice: 40%}}`, changed(func(c *Config) {
			c.Agents.Budget.Slice = 0.4
			c.Agents.Providers = []Provider{{
				URL: "http://127.0.0.1:8080/v1", Wire: "responses", MaxTokensField: "max_tokens", Context: 128_000, Concurrency: 4,
				NoStream: true, NoStreamUsage: true, SendReasoning: true, MaxTokens: 16_000, SystemRole: "user", OneCall: true, MustCall: true,
			}}
		})},
		{"method", "queue: {method: squash}", changed(func(c *Config) { c.Queue.Method, c.Queue.PullMethod = "squash", "squash" })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"unknown key", "main: main\nqueue:\n  smok: [build]", `line 3: queue.smok: unknown key (did you mean "smoke"?)`},
		{"unknown top key", "cheks: none", `line 1: cheks: unknown key (did you mean "checks"?)`},
		{"nothing near", "zzzzzzzzzz: 1", `line 1: zzzzzzzzzz: unknown key (known: agents, checks, green, main, queue)`},
		{"unknown key of a check", "checks: [{name: a, run: b, timout: 5m}]", `line 1: checks[0].timout: unknown key (did you mean "timeout"?)`},
		{"twice", "main: a\nmain: b", "line 2: main: stands here twice (keep one of them)"},
		{"twice a section", "queue: {slots: 1}\nqueue: {slots: 2}", "line 2: queue: stands here twice (keep one of them)"},
		{"list for one", "main: [a]", "line 1: main: want one value (write it on the line of its key)"},
		{"one for list", "queue: {smoke: build}", "line 1: queue.smoke: want a list (write [a, b], or one line with a dash each)"},
		{"one for mapping", "queue: fast", "line 1: queue: want a mapping (write key: value lines below it, or {key: value})"},
		{"list for mapping", "- a", "line 1: want a mapping (write key: value lines below it, or {key: value})"},
		{"null", "queue:\n  policy:\n", "line 2: queue.policy: has no value (give it one, or remove the key to get the default)"},
		{"checks some", "checks: some", "line 1: checks: want a list (write [a, b], or one line with a dash each)"},
		{"checks empty", "checks: []", "line 1: checks: is an empty list (write `checks: none` if that is meant)"},
		{"empty run", "checks: [{name: a, run: ' '}]", "line 1: checks[0].run: is empty (give it a shell command)"},
		{"nothing to run", "checks:\n- name: a", "line 2: checks[0]: has nothing to run (add run: COMMAND, or remote: NAME for a verdict of the forge)"},
		{"no name", "checks:\n- run: a", "line 2: checks[0]: has no name (add one, such as name: test)"},
		{"odd name", "checks: [{name: 'a b', run: a}]", `line 1: checks[0].name: "a b" is not a name (letters, digits, '.', '_' and '-', at most 100, as in unit-tests)`},
		{"climbing name", "checks: [{name: '..', run: a}]", `line 1: checks[0].name: ".." is not a name (letters, digits, '.', '_' and '-', at most 100, as in unit-tests)`},
		{"one name twice", "checks:\n- {name: a, run: b}\n- {name: a, run: c}", `line 3: checks[1].name: "a" is the name of the check in line 2 too (give each check its own name)`},
		{"run and remote", "checks:\n- name: a\n  remote: CI\n  run: b", "line 4: checks[0].run: does not go with remote: the forge runs that check (drop one of them)"},
		{"yes", "checks: [{name: a, run: b, required: yes}]", `line 1: checks[0].required: want true or false, not "yes"`},
		{"bare duration", "checks: [{name: a, run: b, timeout: 300}]", `line 1: checks[0].timeout: "300" is not a duration above zero (add a unit, as in 300s)`},
		{"negative duration", "green: {stale_after: -2h}", `line 1: green.stale_after: "-2h" is not a duration above zero (as in 90s, 15m or 2h)`},
		{"report", "checks: [{name: a, run: b, report: go-jsn}]", `line 1: checks[0].report: want none, go-json, junit:GLOB or tap, not "go-jsn" (did you mean "go-json"?)`},
		{"junit", "checks: [{name: a, run: b, report: junit}]", "line 1: checks[0].report: junit wants the files (as in junit:reports/**/*.xml)"},
		{"size", "queue: {gate: {max_file: 5 megs}}", `line 1: queue.gate.max_file: "5 megs" is not a size above zero (as in 64KiB, 5MiB or 2GiB)`},
		{"count", "agents: {budget: {tokens: many}}", `line 1: agents.budget.tokens: "many" is not a count above zero (as in 128000, 500k or 2M)`},
		{"bare share", "queue: {error_budget: 0.25}", `line 1: queue.error_budget: want a percentage from 0% to 100%, not "0.25" (as in 25%)`},
		{"bare percent", "queue: {error_budget: 25}", `line 1: queue.error_budget: want a percentage from 0% to 100%, not "25" (as in 25%)`},
		{"too much", "queue: {error_budget: 250%}", `line 1: queue.error_budget: want a percentage from 0% to 100%, not "250%" (as in 25%)`},
		{"enum", "queue: {policy: adaptiv}", `line 1: queue.policy: want tolerant or gated or adaptive, not "adaptiv" (did you mean "adaptive"?)`},
		{"no slots", "queue: {slots: 0}", `line 1: queue.slots: want a whole number from 1 to 256, not "0"`},
		{"smoke without checks", "queue: {smoke: [build]}", `line 1: queue.smoke[0]: "build" is not one of the checks (there are no checks)`},
		{"smoke", "queue: {smoke: [buidl]}\nchecks: [{name: build, run: make}]", `line 1: queue.smoke[0]: "buidl" is not one of the checks (did you mean "build"?)`},
		{"smoke twice", "checks: [{name: a, run: b}]\nqueue: {smoke: [a, a]}", "line 2: queue.smoke[1]: stands here twice (keep one of them)"},
		{"gated by nothing", "queue: {policy: gated}", "line 1: queue.policy: gated, but no checks are configured (add checks, such as [{name: test, run: go test ./...}], or write `checks: none` if that is meant)"},
		{"embargo", "queue: {embargo: [Fri 13:00 - Mon 09:00]}", `line 1: queue.embargo[0]: "Fri 13:00 - Mon 09:00" is not a window of the week (as in Fri 13:00 - Mon 09:00 Europe/Berlin)`},
		{"embargo zone", "queue: {embargo: [Fri 13:00 - Mon 09:00 Europe/Berln]}", `line 1: queue.embargo[0]: "Europe/Berln" is not a time zone (as in Fri 13:00 - Mon 09:00 Europe/Berlin)`},
		{"glob", "queue: {gate: {deny: ['a[']}}", "line 1: queue.gate.deny[0]: \"a[\" is not a glob (a [ wants its ], a \\ wants what it quotes)"},
		{"rooted glob", "green: {protected: [/ci/**]}", `line 1: green.protected[0]: "/ci/**" begins elsewhere (paths begin at the top of the repository: write "ci/**")`},
		{"folder", "green: {protected: [ci/]}", `line 1: green.protected[0]: "ci/" ends in a slash (write "ci/**")`},
		{"parse", "queue: {gate: {parse: [{run: x}]}}", `line 1: queue.gate.parse[0]: wants both paths and run (as in {paths: ["**/*.toml"], run: taplo lint -})`},
		{"skip", "queue: {gate: {skip: [{rule: markers}]}}", `line 1: queue.gate.skip[0]: wants both rule and paths (as in {rule: markers, paths: ["testdata/**"]})`},
		{"cron", "green: {schedule: '* * * *'}", `line 1: green.schedule: "* * * *" has 4 fields, a schedule has 5 (minute hour day month weekday, as in */10 * * * *, or @hourly, @daily, @every 30m)`},
		{"cron range", "green: {schedule: '61 * * * *'}", `line 1: green.schedule: "61" is not a minute from 0 to 59, nor a range of them`},
		{"cron word", "green: {schedule: '@hurly'}", `line 1: green.schedule: "@hurly" is not a schedule (did you mean "@hourly"?)`},
		{"branch", "main: refs/heads/main", `line 1: main: "refs/heads/main" is a full ref (write only the branch's name)`},
		{"option for a branch", "main: --upload-pack=x", `line 1: main: "--upload-pack=x" cannot be a branch`},
		{"one branch", "main: green", `line 1: green: is "green", as main is (give green a branch of its own)`},
		{"signer", "green: {signers: [ops@example.com]}", `line 1: green.signers[0]: "ops@example.com" lacks a principal, a key type or a key (as in ops@example.com ssh-ed25519 AAAA…, from the .pub file)`},
		{"wrong key", "green: {signers: [ops@example.com ssh-rsa " + strings.Fields(key)[1] + "]}", `line 1: green.signers[0]: the key of "ops@example.com" is not of the type "ssh-rsa" (as in ops@example.com ssh-ed25519 AAAA…, from the .pub file)`},
		{"role", "agents: {roles: {woker: {model: a}}}", `line 1: agents.roles.woker: unknown key (did you mean "worker"?)`},
		{"no program", "agents: {roles: {worker: {command: []}}}", `line 1: agents.roles.worker.command: has no program (as in [codex, exec, "-"])`},
		{"server", "agents: {providers: [{wire: chat}]}", "line 1: agents.providers[0]: has no url (as in url: https://api.example.com/v1)"},
		{"key in the address", "agents: {providers: [{url: 'https://me:secret@example.com'}]}", "line 1: agents.providers[0].url: holds a user or password (take the key from the environment)"},
		{"alias", "main: &a x\ngreen: *a", "line 2: green: aliases are not read here (write the value out)"},
		{"merge key", "queue: &q {slots: 1}\nagents: {<<: *q}", "line 2: agents: has a key that is not a plain word"},
		{"tag", "main: !!binary bWFpbg==", `line 1: main: has the tag "!!binary" (remove the tag)`},
		{"two documents", "main: a\n---\nmain: b", "holds more than one document (keep one and drop the line ---)"},
		{"no YAML", "main: [a", "not YAML: line 1: did not find expected ',' or ']'"},
		{"huge", strings.Repeat("# a\n", 1<<18), "has 1048576 bytes, at most 262144 are read (a policy is small: move what is generated elsewhere)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.file))
			if err == nil {
				t.Fatalf("Parse(%q) succeeded, want %q", tt.file, tt.want)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", tt.file, diff)
			}
		})
	}
}

func TestParseTellsAllFaultsAtOnce(t *testing.T) {
	_, err := Parse([]byte("green: {tags: weekly}\nqueue:\n  slots: many\n  smoke: [a]\nmian: x\nchecks:\n- {name: b, run: ''}\n"))
	bad, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("Parse: %v, want an *Error", err)
	}
	var got []string
	for _, f := range bad.Faults {
		got = append(got, fmt.Sprintf("%d %s", f.Line, f.Key))
	}
	want := []string{"1 green.tags", "3 queue.slots", "4 queue.smoke[0]", "5 mian", "7 checks[0].run"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// TestParseIsBounded feeds it what has hurt readers of YAML.
func TestParseIsBounded(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a: &a [x,x,x,x,x,x,x,x,x]\n")
	for c := 'b'; c < 'k'; c++ {
		fmt.Fprintf(&bomb, "%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	for name, file := range map[string]string{
		"bomb":        bomb.String(),
		"self":        "a: &a [*a]\n",
		"deep":        strings.Repeat("[", 100_000),
		"deep blocks": strings.Repeat("- ", 100_000),
		"wide":        "queue: {embargo: [" + strings.Repeat("a,", 100_000) + "]}",
		"many keys":   strings.Repeat("a: b\n", 50_000),
		"long key":    strings.Repeat("k", 200_000) + ": v",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(file))
			if err == nil {
				t.Fatal("Parse succeeded")
			}
			if n := len(err.Error()); n > 8<<10 {
				t.Errorf("Parse complains in %d bytes", n)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	tree := func(files map[string]string) func(string) ([]byte, error) {
		return func(path string) ([]byte, error) {
			if data, ok := files[path]; ok {
				return []byte(data), nil
			}
			return nil, fmt.Errorf("look up %s: %w", path, fs.ErrNotExist)
		}
	}
	c, path, err := Load(tree(map[string]string{".greenward.yml": "main: a", ".github/greenward.yml": "main: b"}))
	if err != nil || path != ".greenward.yml" || c.Main != "a" {
		t.Errorf("Load with both = %q from %q, %v; want a from .greenward.yml", c.Main, path, err)
	}
	c, path, err = Load(tree(map[string]string{".github/greenward.yml": "main: b"}))
	if err != nil || path != ".github/greenward.yml" || c.Main != "b" {
		t.Errorf("Load with the second = %q from %q, %v; want b from .github/greenward.yml", c.Main, path, err)
	}
	c, path, err = Load(tree(nil))
	if err != nil || path != "" || c.Checks != nil || !errors.Is(c.NeedChecks(), ErrNoChecks) {
		t.Errorf("Load with none = %v from %q, %v; want the default, which has no checks", c, path, err)
	}
	_, _, err = Load(tree(map[string]string{".greenward.yml": "\nmian: a"}))
	if want := `.greenward.yml:2: mian: unknown key (did you mean "main"?)`; err == nil || err.Error() != want {
		t.Errorf("Load = %v, want %s", err, want)
	}
	broken := errors.New("disk on fire")
	_, path, err = Load(func(string) ([]byte, error) { return nil, broken })
	if !errors.Is(err, broken) || path != ".greenward.yml" {
		t.Errorf("Load = %q, %v; want %v of .greenward.yml", path, err, broken)
	}
}

func TestDef(t *testing.T) {
	base := Check{Name: "a", Run: "make", Timeout: time.Minute, Report: "none", Required: true}
	// A changed value would disown all evidence there is.
	if got, want := base.Def(), "f510fd161452b555"; got != want {
		t.Errorf("Def() = %q, want %q", got, want)
	}
	same := base
	same.Name, same.Required = "b", false
	if same.Def() != base.Def() {
		t.Error("Def changes with the name or with required, which say nothing about a run")
	}
	for _, change := range []func(*Check){
		func(k *Check) { k.Run = "make all" },
		func(k *Check) { k.Timeout = time.Hour },
		func(k *Check) { k.Report = "tap" },
		func(k *Check) { k.History = true },
		func(k *Check) { k.Sandbox = true },
		func(k *Check) { k.Run, k.Remote = "", "make" },
	} {
		other := base
		change(&other)
		if other.Def() == base.Def() {
			t.Errorf("Def of %+v is that of %+v", other, base)
		}
	}
}

func TestBoundsOfACheck(t *testing.T) {
	c, err := Parse([]byte("checks: [{name: a, run: x, limits: {memory: 2GiB, processes: 100, file_size: 1MiB}}, {name: b, run: x}]"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Bounds{Memory: 2 << 30, Processes: 100, FileSize: 1 << 20}); c.Checks[0].Bounds != want || c.Checks[1].Bounds != (Bounds{}) {
		t.Errorf("got %+v", c.Checks)
	}
	if c.Checks[0].Def() == c.Checks[1].Def() {
		t.Error("a run within bounds is taken for one without")
	}
	if c, err = Parse([]byte("checks: none\ngreen: {no_revert: {authors: [\"*[bot]@example.com\"], paths: [\"migrations/**\"]}}")); err != nil || len(c.Green.NoRevert.Authors) != 1 || c.Green.NoRevert.Paths[0] != "migrations/**" {
		t.Errorf("got %+v, %v", c.Green.NoRevert, err)
	}
	for _, wrong := range []string{"remote: y, limits: {memory: 1GiB}", "run: x, limits: {memroy: 1GiB}", "run: x, limits: {processes: 1}"} {
		if _, err := Parse([]byte("checks: [{name: a, " + wrong + "}]")); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

func TestG05Quarantine(t *testing.T) {
	parse := func(check string) (Check, error) {
		c, err := Parse([]byte("checks: [{name: a, " + check + "}]"))
		if err != nil {
			return Check{}, err
		}
		return c.Checks[0], nil
	}
	got, err := parse("run: x, quarantine: {owner: ann@example.com, until: 2030-01-31, reason: port taken}")
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(2030, 2, 1, 0, 0, 0, 0, time.UTC)
	if want := (Quarantine{Owner: "ann@example.com", Until: end, Reason: "port taken"}); got.Quarantine != want {
		t.Errorf("got %+v, want %+v", got.Quarantine, want)
	}
	if plain, _ := parse("run: x"); plain.Def() != got.Def() || plain.Quarantine.Active(end) || plain.Quarantine.Expired(end) {
		t.Errorf("a check without quarantine: %+v, want none and the same definition", plain)
	}
	for _, tt := range []struct {
		at      time.Time
		active  bool
		expired bool
	}{{end.Add(-time.Second), true, false}, {end, false, true}, {end.AddDate(1, 0, 0), false, true}} {
		if a, e := got.Quarantine.Active(tt.at), got.Quarantine.Expired(tt.at); a != tt.active || e != tt.expired {
			t.Errorf("at %s: active %v and expired %v, want %v and %v", tt.at, a, e, tt.active, tt.expired)
		}
	}
	if got, err := parse("run: x, quarantine: {owner: a, until: 2030-01-31T12:00:00+02:00}"); err != nil || got.Quarantine.Until.Hour() != 10 {
		t.Errorf("a time with a zone: %+v, %v; want 10:00 UTC", got.Quarantine, err)
	}
	for _, bad := range []string{"{owner: a}", "{until: 2030-01-31}", "{owner: a, until: soon}", "{owner: '', until: 2030-01-31}", "true", "{owner: a, until: 2030-01-31, by: b}"} {
		if _, err := parse("run: x, quarantine: " + bad); err == nil {
			t.Errorf("quarantine: %s is taken", bad)
		}
	}
}

func TestG13Renamed(t *testing.T) {
	c, err := Parse([]byte("checks: [{name: a, remote: test, renamed: [test-linux]}]\ngreen: {soak: 1h}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Checks[0].Renamed; len(got) != 1 || got[0] != "test-linux" {
		t.Errorf("renamed: %q, want test-linux", got)
	}
	if c.Green.Soak != time.Hour {
		t.Errorf("soak: %s, want 1h", c.Green.Soak)
	}
	if _, err := Parse([]byte("checks: [{name: a, run: x, renamed: [b]}]")); err == nil {
		t.Error("renamed is taken without remote")
	}
	if _, err := Parse([]byte("checks: [{name: a, run: x, at_least: 1m}]")); err == nil {
		t.Error("at_least is taken without remote")
	}
	long, err := Parse([]byte("checks: [{name: a, remote: test, at_least: 1m}]"))
	if err != nil || long.Checks[0].AtLeast != time.Minute || long.Checks[0].Def() == c.Checks[0].Def() {
		t.Errorf("at_least: %v, %v", long.Checks, err)
	}
}

func TestAccessors(t *testing.T) {
	c, err := Parse([]byte("checks: [{name: a, run: x}, {name: b, run: y, required: false}]\nqueue: {smoke: [b]}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Required(); len(got) != 1 || got[0].Name != "a" {
		t.Errorf("Required() = %v, want a", got)
	}
	if got := c.Smoke(); len(got) != 1 || got[0].Name != "b" {
		t.Errorf("Smoke() = %v, want b", got)
	}
	if _, ok := c.Check("A"); ok {
		t.Error("Check(A) found a: names are exact")
	}
	if err := c.NeedChecks(); err != nil {
		t.Errorf("NeedChecks() = %v, want nil", err)
	}
	c.Checks = c.Checks[1:]
	if err := c.NeedChecks(); !errors.Is(err, ErrNoChecks) {
		t.Errorf("NeedChecks() with optional checks only = %v, want ErrNoChecks", err)
	}
	c.ChecksNone = true
	if err := c.NeedChecks(); err != nil {
		t.Errorf("NeedChecks() when none are meant = %v, want nil", err)
	}
}
