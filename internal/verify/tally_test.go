package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"greenward/internal/gittest"
	"greenward/internal/proc"
)

func TestGoReport(t *testing.T) {
	tests := []struct {
		name, in string
		want     Tally
		text     string
	}{
		{
			"events",
			`{"Action":"start","Package":"m/p"}
{"Action":"run","Package":"m/p","Test":"TestA"}
{"Action":"output","Package":"m/p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"m/p","Test":"TestA","Output":"    a_test.go:3: boom\n"}
{"Action":"output","Package":"m/p","Test":"TestA","Output":"--- FAIL: TestA (0.00s)\n"}
{"Action":"fail","Package":"m/p","Test":"TestA","Elapsed":0}
{"Action":"pass","Package":"m/p","Test":"TestB","Elapsed":0}
{"Action":"skip","Package":"m/p","Test":"TestC","Elapsed":0}
{"Action":"fail","Package":"m/p","Elapsed":0.1}
`,
			Tally{Seen: true, Ran: 2, Failed: 1, Skipped: 1, Names: []string{"m/p.TestA"}},
			"    a_test.go:3: boom\n--- FAIL: TestA (0.00s)\n",
		},
		{
			"build failure", `{"ImportPath":"m/p","Action":"build-output","Output":"# m/p\n"}
{"ImportPath":"m/p","Action":"build-fail"}
`, Tally{Seen: true, Failed: 1, Names: []string{"m/p"}}, "# m/p\n",
		},
		{"no tests", "{\"Action\":\"skip\",\"Package\":\"m/p\",\"Elapsed\":0}\n", Tally{Seen: true}, ""},
		{
			"plain", "ok  \tm/p\t0.1s\n--- FAIL: TestA (0.00s)\nFAIL\nFAIL\tm/q\t0.2s\n?   \tm/r\t[no test files]\nok  \tm/s\t0.1s [no tests to run]\n",
			Tally{Seen: true, Ran: 2, Failed: 2, Skipped: 1, Names: []string{"TestA", "m/q"}},
			"*",
		},
		{"plain, not built", "FAIL\tm/q [build failed]\nFAIL", Tally{Seen: true, Failed: 1, Names: []string{"m/q"}}, "FAIL\tm/q [build failed]\nFAIL\n"},
		{"neither", "hello\n{\"a\":1}\n", Tally{}, "*"},
		{"too long", "ok  \t" + strings.Repeat("x", maxReportLine) + "\nok  \tm/p\t0s\n", Tally{Seen: true, Ran: 1}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := proc.NewCapture(1<<10, 1<<10, nil)
			r := newGoReport(text)
			for _, c := range []byte(tt.in) { // however it arrives
				if _, err := r.Write([]byte{c}); err != nil {
					t.Fatal(err)
				}
			}
			got, err := r.finish()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, *got, cmpopts.IgnoreFields(Tally{}, "Each")); diff != "" {
				t.Errorf("tally (-want +got):\n%s", diff)
			}
			want := tt.text
			if want == "*" {
				want = tt.in
			}
			if want != "" && text.String() != want {
				t.Errorf("text: got %q, want %q", text.String(), want)
			}
		})
	}
}

func TestReportsOfRealRuns(t *testing.T) {
	const junit = `<?xml version="1.0"?><testsuites><testsuite name="s"><testcase classname="c" name="a"/>` +
		`<testcase classname="c" name="b"><failure message="no"/></testcase><testcase name="d"><skipped/></testcase></testsuite></testsuites>`
	tests := []struct {
		name, report, run string
		want              Verdict
		cause             Cause
		tests             int
		failing           []string
	}{
		{"junit that fails", "junit:out/**/*.xml", "mkdir -p out/x; cp in.xml out/x/r.xml; exit 1", Failed, CauseExit, 2, []string{"c.b"}},
		{"junit that fails with exit 0", "junit:out/*.xml", "mkdir out; cp in.xml out/r.xml", Failed, CauseReport, 2, []string{"c.b"}},
		{"junit of the tree is none of this run", "junit:*.xml", "true", Unknown, CauseEmpty, 0, nil},
		{"junit that nobody wrote, exit 1", "junit:out/*.xml", "exit 1", Failed, CauseExit, 0, nil},
		{"junit cut short, exit 0", "junit:out/*.xml", "mkdir out; head -c 120 in.xml > out/r.xml", Unknown, CauseReport, 1, nil},
		{"junit cut short, exit 2", "junit:out/*.xml", "mkdir out; head -c 120 in.xml > out/r.xml; exit 2", Failed, CauseExit, 0, nil},
		{"junit out of the workspace", "junit:out/*.xml", "ln -s /etc out; mkdir -p x; ln -s /etc/passwd x.xml", Unknown, CauseEmpty, 0, nil},
		{"G24 tap without a test", "tap", "echo 1..0; exit 1", Unknown, CauseEmpty, 0, nil},
		{"tap", "tap", "echo 1..1; echo ok 1", Passed, "", 1, nil},
		{"G09 every tap test skipped", "tap", "echo 1..1; echo 'ok 1 # skip'", Unknown, CauseEmpty, 0, nil},
	}
	b := newBench(t)
	s := b.commit(t, map[string]string{"in.xml": junit, "go.mod": "module m\n\ngo 1.24\n"})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := check(tt.name, tt.run)
			c.Report = tt.report
			o := b.only(t, s, c)
			if o.Verdict != tt.want || o.Cause != tt.cause || o.Tests != tt.tests {
				t.Errorf("got %+v", o)
			}
			if diff := cmp.Diff(tt.failing, o.Failing); diff != "" {
				t.Errorf("failing (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGoModuleIsTested(t *testing.T) {
	b := newBench(t)
	files := map[string]string{
		"go.mod":    "module m\n\ngo 1.24\n",
		"m.go":      "package m\n\nfunc Add(a, b int) int { return a + b }\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Error(\"one and two\")\n\t}\n}\n\nfunc TestSkip(t *testing.T) { t.Skip() }\n",
	}
	good := b.commit(t, files)
	bad := b.commit(t, map[string]string{"m.go": "package m\n\nfunc Add(a, b int) int { return a - b }\n"})
	unbuilt := b.commit(t, map[string]string{"m.go": "package m\n\nfunc Add(a, b int) int { return c }\n"})
	for _, run := range []string{"go test -json ./...", "go test ./..."} {
		c := check("test", run)
		c.Report = "go-json"
		if o := b.only(t, good, c); o.Verdict != Passed || o.Tests != 1 {
			t.Errorf("%s, good: %+v", run, o)
		}
		if o := b.only(t, bad, c); o.Verdict != Failed || !strings.Contains(o.Output, "m_test.go:7: one and two") || !strings.Contains(strings.Join(o.Failing, " "), "TestAdd") {
			t.Errorf("%s, bad: %+v", run, o)
		}
		if o := b.only(t, unbuilt, c); o.Verdict != Failed || !strings.Contains(o.Output, "undefined: c") {
			t.Errorf("%s, not built: %+v", run, o)
		}
		c = check("none", run+" -run=Nothing")
		c.Report = "go-json"
		if o := b.only(t, good, c); o.Verdict != Unknown || o.Cause != CauseEmpty {
			t.Errorf("%s, nothing selected: %+v", run, o)
		}
	}
	// A go.work of the clone that the hub lies in is not the tree's.
	writeFile(t, filepath.Join(filepath.Dir(b.dir), "go.work"), "go 1.24\n\nuse ./elsewhere\n")
	if o := b.only(t, good, check("build", "go build ./...")); o.Verdict != Passed {
		t.Errorf("below a foreign go.work: %+v", o)
	}
}

func TestSpoolsArePruned(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checks")
	if err := prune(dir, 1, 1); err != nil {
		t.Errorf("nothing there: %v", err)
	}
	for i := range 6 {
		path := filepath.Join(dir, fmt.Sprintf("%d.log", i))
		s, err := newSpool(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write([]byte("0123456789")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.close(); err != nil {
			t.Fatal(err)
		}
		at := gittest.Start().Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	names := func() (names []string) {
		left, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range left {
			names = append(names, e.Name())
		}
		return names
	}
	if err := prune(dir, 4, 1000); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"2.log", "3.log", "4.log", "5.log"}, names()); diff != "" {
		t.Errorf("by number (-want +got):\n%s", diff)
	}
	if err := prune(dir, 4, 25); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"4.log", "5.log"}, names()); diff != "" {
		t.Errorf("by size (-want +got):\n%s", diff)
	}
}
