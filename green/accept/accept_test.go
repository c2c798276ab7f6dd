package accept_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"greenward/green/accept"
	"greenward/internal/verify"
)

const (
	code = "package a\n\nfunc Mean(x []int) int {\n\treturn x[0]\n}\n"
	test = `package a

import "testing"

func TestMean(t *testing.T) {
	const tolerance = 0.01
	if got := Mean([]int{1, 3}); got != 2 {
		t.Errorf("got %d", got)
	}
}

func TestMore(t *testing.T) {
	t.Run("one", func(t *testing.T) { t.Log("one") })
}
`
)

// edit is a patch of one file.
func edit(path, before, after string) accept.Patch {
	f := accept.File{Path: path}
	if before != "" {
		f.Before = []byte(before)
	}
	if after != "" {
		f.After = []byte(after)
	}
	return accept.Patch{Files: []accept.File{f}, Protected: []string{"ops/**"}, HoldOut: []string{"hidden/**"}, Runs: []string{"go vet ./... && go test ./...", "CGO=1 sh ./check.sh --all", "make test"}}
}

func rules(all []accept.Refusal) []string {
	var names []string
	for _, r := range all {
		names = append(names, r.Rule)
	}
	return slices.Compact(names)
}

// try is one trick and the rule that meets it.
type try struct {
	name, path, before, after string
	want                      string
}

// refused holds that every trick is refused by its name, whatever the hold-outs say.
func refused(t *testing.T, tries []try) {
	t.Helper()
	for _, one := range tries {
		broken, _ := edit(one.path, one.before, one.after).Refusals()
		if !slices.Contains(rules(broken), one.want) {
			t.Errorf("%s: got %v, want %s", one.name, broken, one.want)
		}
	}
}

// suspected holds that every trick waits for a hold-out check, and is refused by its
// name where there is none or it fails.
func suspected(t *testing.T, tries []try) {
	t.Helper()
	for _, one := range tries {
		broken, suspicious := edit(one.path, one.before, one.after).Refusals()
		if len(broken) > 0 || !slices.Contains(rules(suspicious), one.want) {
			t.Errorf("%s: got %v and %v, want %s", one.name, broken, suspicious, one.want)
		}
		e := accept.Evidence{Suspicious: suspicious, Checks: []accept.Check{{Name: "test", Verdict: verify.Passed}}}
		if got := rules(e.Refusals()); !slices.Contains(got, one.want) {
			t.Errorf("%s: got %v without a hold-out, want %s", one.name, got, one.want)
		}
		e.Checks = append(e.Checks, accept.Check{Name: "hidden", HoldOut: true, Verdict: verify.Failed})
		if got := rules(e.Refusals()); !slices.Contains(got, accept.HoldOutFails) {
			t.Errorf("%s: got %v with a failing hold-out", one.name, got)
		}
		e.Checks[1].Verdict = verify.Passed
		if got := e.Refusals(); len(got) > 0 {
			t.Errorf("%s: got %v with a hold-out that passes", one.name, got)
		}
	}
}

func swap(was, is string) string { return strings.Replace(test, was, is, 1) }

func TestG46aDeletedTests(t *testing.T) {
	refused(t, []try{
		{"the file", "a_test.go", test, "", accept.DeletedTest},
		{"a file below tests/", "tests/run.py", "assert True\n", "", accept.DeletedTest},
		{"the function", "a_test.go", test, swap("func TestMean", "func meanTest"), accept.FewerTests},
		{"a subtest", "a_test.go", test, swap(`t.Run("one", func(t *testing.T) { t.Log("one") })`, ""), accept.FewerTests},
		{"python", "test_a.py", "def test_a():\n    assert f() == 1\n", "def not_a():\n    assert f() == 1\n", accept.FewerTests},
		{"an assertion", "a_test.go", test, swap(`t.Errorf("got %d", got)`, `t.Logf("got %d", got)`), accept.FewerAssertions},
		{"expect", "a.spec.ts", "it('a', () => { expect(f()).toBe(1) })\n", "it('a', () => { f() })\n", accept.FewerAssertions},
		{"rust, inside the code", "src/lib.rs", "#[cfg(test)]\nmod t {\n#[test]\nfn a() { assert_eq!(f(), 1); }\n}\n", "#[cfg(test)]\nmod t {\n#[test]\nfn a() { f(); }\n}\n", accept.FewerAssertions},
	})
}

func TestG46bSkips(t *testing.T) {
	refused(t, []try{
		{"go", "a_test.go", test, swap("const tolerance", "t.Skip()\n\tconst tolerance"), accept.Skip},
		{"a build constraint", "a_test.go", test, "//go:build slow\n\n" + test, accept.Skip},
		{"pytest", "test_a.py", "def test_a():\n    assert f() == 1\n", "@pytest.mark.xfail\ndef test_a():\n    assert f() == 1\n", accept.Skip},
		{"only another", "a.test.js", "it('a', f)\nit('b', g)\n", "it('a', f)\nit.only('b', g)\n", accept.Skip},
		{"junit", "ATest.java", "@Test\nvoid a() {}\n", "@Disabled\n@Test\nvoid a() {}\n", accept.Skip},
		{"rust", "src/lib.rs", "#[cfg(test)]\n#[test]\nfn a() {}\n", "#[cfg(test)]\n#[test]\n#[ignore]\nfn a() {}\n", accept.Skip},
		{"a skip list", "ci/skiplist.txt", "", "TestMean\n", accept.Runner},
	})
}

func TestG46cWhatJudges(t *testing.T) {
	refused(t, []try{
		{"the policy", ".greenward.yml", "checks: [x]\n", "checks: none\n", accept.Protected},
		{"the other policy", ".github/greenward.yml", "", "checks: none\n", accept.Protected},
		{"a workflow", ".github/workflows/ci.yml", "x\n", "y\n", accept.Protected},
		{"another forge's", ".gitlab-ci.yml", "x\n", "y\n", accept.Protected},
		{"prompts", ".greenward/prompts/fixup.md", "", "be kind\n", accept.Protected},
		{"the policy's own glob", "ops/run.sh", "x\n", "y\n", accept.Protected},
		{"what a check runs", "check.sh", "exit 1\n", "exit 0\n", accept.Runner},
		{"what make runs", "Makefile", "test:\n\tgo test\n", "test:\n\ttrue\n", accept.Runner},
		{"settings of the runner", "sub/pytest.ini", "", "[pytest]\naddopts = -k nothing\n", accept.Runner},
		{"a tool's version", ".nvmrc", "20\n", "18\n", accept.Runner},
		{"an expected result", "a/testdata/out.golden", "1\n", "2\n", accept.Golden},
		{"what was held out", "hidden/run.sh", "", "exit 0\n", accept.HoldOut},
		{"tasks", "tasks/x.md", "", "x\n", accept.Tasks},
	})
}

func TestG46dTolerances(t *testing.T) {
	suspected(t, []try{
		{"in the test", "a_test.go", test, swap("0.01", "10.0"), accept.Expectation},
		{"the expectation itself", "a_test.go", test, swap("got != 2", "got != 1"), accept.Expectation},
		{"never reached", "a_test.go", test, swap("if got :=", "if false && got :="), accept.Expectation},
		{"an early return", "a_test.go", test, swap("const tolerance", "return\n\tconst tolerance"), accept.Expectation},
		{"in a helper", "check/near.go", "package check\n\nconst epsilon = 1e-9\n", "package check\n\nconst epsilon = 1e9\n", accept.Tolerance},
	})
}

func TestG46eLooksWhereItRuns(t *testing.T) {
	suspected(t, []try{
		{"go", "a.go", code, strings.Replace(code, "return x[0]", `if os.Getenv("CI") != "" {`+"\n\t\treturn 2\n\t}\n\treturn x[0]", 1), accept.Environment},
		{"node", "a.js", "f()\n", "if (process.env.CI) ok()\nf()\n", accept.Environment},
		{"python", "a.py", "f()\n", "if os.environ.get('CI'): ok()\nf()\n", accept.Environment},
		{"shell", "a.sh", "f\n", "test -n \"$CI\" && exit 1\nf\n", accept.Environment},
		{"under test", "a.go", code, strings.Replace(code, "return x[0]", "if testing.Testing() {\n\t\treturn 2\n\t}\n\treturn x[0]", 1), accept.Environment},
	})
}

func TestG46fWaitsAndRetries(t *testing.T) {
	suspected(t, []try{
		{"sleep", "a.go", code, strings.Replace(code, "return", "time.Sleep(time.Second)\n\treturn", 1), accept.Retry},
		{"retry", "a.go", code, strings.Replace(code, "return", "for attempt := range 5 {\n\t}\n\treturn", 1), accept.Retry},
		{"eventually", "a.rb", "f\n", "retry_until { f }\nf\n", accept.Retry},
		{"or true", "run.sh", "f\n", "f || true\n", accept.Swallow},
		{"a test main", "main_test.go", "", "package a\n\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(0) }\n", accept.Swallow},
	})
}

// What is honest is taken: a mended cause, with a test more.
func TestG46AnHonestPatchIsTaken(t *testing.T) {
	p := edit("a.go", code, strings.Replace(code, "return x[0]", "sum := 0\n\tfor _, v := range x {\n\t\tsum += v\n\t}\n\treturn sum / len(x)", 1))
	more := test + "\nfunc TestEmpty(t *testing.T) {\n\tif Mean([]int{4}) != 4 {\n\t\tt.Fatal(\"one\")\n\t}\n}\n"
	p.Files = append(p.Files, accept.File{Path: "a_test.go", Before: []byte(test), After: []byte(more)}, accept.File{Path: "testdata/new.json", After: []byte("{}\n")})
	if broken, suspicious := p.Refusals(); len(broken)+len(suspicious) > 0 {
		t.Errorf("got %v, %v", broken, suspicious)
	}
}

func TestBudgetsAndKinds(t *testing.T) {
	long := strings.Repeat("x = 1\n", 500)
	for want, p := range map[string]accept.Patch{
		accept.Empty:   {},
		accept.Size:    edit("a.txt", "", long),
		accept.Markers: edit("a.txt", "a\n", "<<<<<<< a\na\n=======\n>>>>>>> b\n"),
		accept.Special: {Files: []accept.File{{Path: "a.txt", Before: []byte("a\n"), After: []byte("b"), Odd: true}}},
	} {
		if broken, _ := p.Refusals(); len(broken) != 1 || broken[0].Rule != want || accept.Gaming(want) {
			t.Errorf("got %v, want %s, which is no trick", broken, want)
		}
	}
}

func TestTestsMustNotRunLess(t *testing.T) {
	green := verify.Counts{"p.TestA": {Ran: 3}, "p.TestB": {Ran: 1}, "p.TestGone": {Ran: 1}, "p.TestS": {Skipped: 1}}
	before := verify.Counts{"p.TestA": {Ran: 1}, "p.TestNew": {Ran: 2}}
	for _, tt := range []struct {
		name  string
		after verify.Counts
		want  []string
	}{
		{"as before", verify.Counts{"p.TestA": {Ran: 3}, "p.TestB": {Ran: 1}, "p.TestNew": {Ran: 2}, "p.TestS": {Skipped: 1}}, nil},
		{"more", verify.Counts{"p.TestA": {Ran: 4}, "p.TestB": {Ran: 1}, "p.TestNew": {Ran: 2}, "p.TestMore": {Ran: 1}}, []string{}},
		{"one less", verify.Counts{"p.TestA": {Ran: 3}, "p.TestNew": {Ran: 2}}, []string{accept.ExecutedLess}},
		{"fewer times", verify.Counts{"p.TestA": {Ran: 1}, "p.TestB": {Ran: 1}, "p.TestNew": {Ran: 1}}, []string{accept.ExecutedLess}},
		{"skipped", verify.Counts{"p.TestA": {Ran: 3}, "p.TestB": {Skipped: 1}, "p.TestNew": {Ran: 2}}, []string{accept.NewlySkipped}},
		{"no report", nil, []string{accept.ExecutedLess}},
	} {
		e := accept.Evidence{
			Checks:  []accept.Check{{Name: "test", Verdict: verify.Passed, Green: green, Before: before, After: tt.after}},
			Dropped: func(test string) bool { return test == "TestGone" },
		}
		if got := rules(e.Refusals()); !slices.Equal(got, tt.want) && len(got)+len(tt.want) > 0 {
			t.Errorf("%s: got %v, want %v", tt.name, e.Refusals(), tt.want)
		}
	}
}

func TestWhatFailedHasToPassOftenEnough(t *testing.T) {
	e := accept.Evidence{Repeats: []accept.Repeat{{"test", 3, 3}, {"lint", 1, 2}}, Checks: []accept.Check{{Name: "build", Verdict: verify.Unknown}}}
	if got := e.Refusals(); len(got) != 2 || got[0].Rule != accept.StillFails || got[1].Rule != accept.StillFails || !strings.Contains(got[1].Detail, "lint") {
		t.Errorf("got %v", got)
	}
}

// Whatever the patch: judging it neither fails nor depends on the order of its files,
// and what judges is never taken.
func TestPatchProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom([]string{"a.go", "a_test.go", ".greenward.yml", "check.sh", "x/testdata/y", "tests/z.py", ".ci/run", "hidden/q"})
		text := rapid.StringOfN(rapid.SampledFrom([]rune("a\n\x00 t.Skip()\"assert#")), 0, 60, -1)
		var p accept.Patch
		p.HoldOut, p.Runs = []string{"hidden/**"}, []string{"sh check.sh"}
		for range rapid.IntRange(1, 5).Draw(t, "files") {
			p.Files = append(p.Files, accept.File{Path: path.Draw(t, "path"), Before: []byte(text.Draw(t, "before")), After: []byte(text.Draw(t, "after"))})
		}
		broken, _ := p.Refusals()
		slices.Reverse(p.Files)
		again, _ := p.Refusals()
		if a, b := rules(broken), rules(again); len(broken) != len(again) || len(a) == 0 != (len(b) == 0) {
			t.Fatalf("got %v and %v", broken, again)
		}
		for _, f := range p.Files {
			if slices.Contains([]string{".greenward.yml", "check.sh", ".ci/run", "hidden/q", "x/testdata/y"}, f.Path) && len(broken) == 0 {
				t.Fatalf("%s may be touched", f.Path)
			}
		}
	})
}
