package verify

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"greenward/internal/proc"
)

func TestTapReport(t *testing.T) {
	tests := []struct {
		name, in string
		want     Tally
	}{
		{
			"flat", "TAP version 13\n1..4\nok 1 a\nnot ok 2 - b\nok 3 # SKIP later\nnot ok 4 # TODO some day\n",
			Tally{Seen: true, Ran: 3, Failed: 1, Skipped: 1, Names: []string{"b"}},
		},
		{
			"subtests", "TAP version 14\n# Subtest: a\n    ok 1 - x\n    # Subtest: y\n        ok 1 - p\n        not ok 2 - q\n        1..2\n    not ok 2 - y\n    1..2\nnot ok 1 - a\nok 2 - b\n1..2\n",
			Tally{Seen: true, Ran: 4, Failed: 1, Names: []string{"a / y / q"}},
		},
		{
			"a parent that is well says so of its children", "    not ok 1 - x # TODO\n    1..1\nok 1 - a\n    not ok 1 - y\nok 2 - b\n1..2\n",
			Tally{Seen: true, Ran: 2},
		},
		{
			"a parent that fails by itself", "    ok 1 - x\n    1..1\nnot ok 1 - a\n1..1\n",
			Tally{Seen: true, Ran: 1, Failed: 1, Names: []string{"a"}},
		},
		{
			"G09 all subtests skipped", "    ok 1 # skip\n    ok 2 # skip\n    1..2\nok 1 - a\n1..1\n",
			Tally{Seen: true, Skipped: 2},
		},
		{
			"what a diagnostic holds is no test", "not ok 1 - a\n  ---\n  output: |\n    not ok 9 - quoted\n    1..7\n  ...\nok 2 - b\n1..2\n",
			Tally{Seen: true, Ran: 2, Failed: 1, Names: []string{"a"}},
		},
		{
			"fewer than planned", "1..3\nok 1\nok 2\n",
			Tally{Seen: true, Ran: 2, Failed: 1, Names: []string{"3 tests were planned and 2 came"}},
		},
		{
			"fewer than planned below", "    1..2\n    ok 1 - x\nnot ok 1 - a\n1..1\n",
			Tally{Seen: true, Ran: 1, Failed: 1, Names: []string{"a / 2 tests were planned and 1 came"}},
		},
		{
			"the parent never came", "    ok 1 - x\n    not ok 2 - y\n",
			Tally{Seen: true, Ran: 2, Failed: 1, Names: []string{"y"}},
		},
		{"nothing planned", "1..0 # skipped\n", Tally{Seen: true}},
		{"the end of it", "1..9\nok 1\nBail out! no database\n", Tally{Seen: true, Ran: 1, Failed: 1, Names: []string{"Bail out! no database"}}},
		{"none", "okay\nnothing\n1..x\n", Tally{}},
		{"without names", "not ok\nnot ok 7\nnot ok 8 -\n", Tally{Seen: true, Ran: 3, Failed: 3, Names: []string{"a test", "7", "8"}}},
	}
	for _, tt := range tests {
		r := newTapReport()
		if _, err := r.Write([]byte(tt.in)); err != nil {
			t.Fatal(err)
		}
		got, err := r.finish()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, *got, cmpopts.IgnoreFields(Tally{}, "Each")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestJUnit(t *testing.T) {
	tests := []struct {
		name, in string
		want     Tally
		fails    bool
	}{
		{"cases", `<testsuite><testcase classname="c" name="a"/><testcase name="b"><error/></testcase><testcase name="d"><skipped/></testcase></testsuite>`, Tally{Seen: true, Ran: 2, Failed: 1, Skipped: 1, Names: []string{"b"}}, false},
		{"a suite that did not begin", `<testsuites><testsuite name="s"><error message="no"/></testsuite></testsuites>`, Tally{Seen: true, Failed: 1, Names: []string{"s"}}, false},
		{"entities are not expanded", `<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite><testcase name="&b;"><failure/></testcase></testsuite>`, Tally{Seen: true, Ran: 1, Failed: 1, Names: []string{"&b;"}}, false},
		{"cut short", `<testsuite><testcase name="a"><fail`, Tally{Seen: true}, true},
		{"an outcome of something else", `<html><failure/></html>`, Tally{}, false},
	}
	for _, tt := range tests {
		var got Tally
		err := got.readJUnit(strings.NewReader(tt.in))
		if (err != nil) != tt.fails {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(Tally{}, "Each")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// FuzzReports holds that no report breaks its reader, that a tally makes sense,
// and that it does not depend on how the report was written.
func FuzzReports(f *testing.F) {
	f.Add([]byte("{\"Action\":\"fail\",\"Test\":\"a/b\"}\n{\"Action\":\"fail\",\"Test\":\"a\"}\nok  \tm\t1s\n1..2\nnot ok\n<testcase><failure/></testcase>"), uint64(1))
	f.Add([]byte("    1..2\n    ok 1 - x\n        not ok\n  ---\n  ...\nnot ok 1 - a # todo\n1..1\nBail out!"), uint64(2))
	f.Add([]byte("--- FAIL: TestA (0.00s)\nFAIL\tm [build failed]\n?   \tm\t[no test files]\n"), uint64(3))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		var junit Tally
		if err := junit.readJUnit(strings.NewReader(string(data))); err == nil {
			sane(t, junit)
		}
		for _, fresh := range []func() reporter{
			func() reporter { return newGoReport(proc.NewCapture(10, 10, nil)) },
			func() reporter { return newTapReport() },
		} {
			whole := tallyOf(t, fresh(), data)
			var pieces [][]byte
			random := rand.New(rand.NewPCG(seed, 1))
			for rest := data; len(rest) > 0; {
				n := 1 + random.IntN(len(rest))
				pieces, rest = append(pieces, rest[:n]), rest[n:]
			}
			if diff := cmp.Diff(whole, tallyOf(t, fresh(), pieces...)); diff != "" {
				t.Errorf("it depends on how it was written (-at once +in pieces):\n%s", diff)
			}
			sane(t, whole)
		}
	})
}

func tallyOf(t *testing.T, r reporter, pieces ...[]byte) Tally {
	t.Helper()
	for _, piece := range pieces {
		if n, err := r.Write(piece); n != len(piece) || err != nil {
			t.Fatalf("wrote %d of %d: %v", n, len(piece), err)
		}
	}
	tally, err := r.finish()
	if err != nil {
		t.Fatal(err)
	}
	return *tally
}

func sane(t *testing.T, tally Tally) {
	t.Helper()
	if tally.Ran < 0 || tally.Skipped < 0 || len(tally.Names) > maxNames || len(tally.Names) > tally.Failed {
		t.Errorf("tally %+v", tally)
	}
	for _, name := range tally.Names {
		if !utf8.ValidString(name) || len(name) > 100 {
			t.Errorf("name %q", name)
		}
	}
}
