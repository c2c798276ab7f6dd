package verify

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Tests are counted by the name of the whole one, whatever its parts are called.
func TestTestsAreCountedByName(t *testing.T) {
	goJSON := newGoReport(&strings.Builder{})
	for _, line := range []string{
		`{"Action":"pass","Package":"p","Test":"TestA/one"}`, `{"Action":"pass","Package":"p","Test":"TestA/two_193"}`, `{"Action":"pass","Package":"p","Test":"TestA"}`,
		`{"Action":"skip","Package":"p","Test":"TestB"}`, `{"Action":"fail","Package":"q","Test":"TestA"}`, `{"Action":"fail","Package":"q"}`,
		"ok  \tr\t0.1s", "ok  \ts\t0.1s [no tests to run]",
	} {
		goJSON.read([]byte(line), true)
	}
	tap := newTapReport()
	for _, line := range []string{"1..3", "    ok 1 - x", "    ok 2 - y", "ok 1 - a", "not ok 2 - b", "ok 3 - c # SKIP no network"} {
		tap.read([]byte(line), true)
	}
	var junit Tally
	if err := junit.readJUnit(strings.NewReader(`<testsuite><testcase classname="c" name="a[1]"/><testcase classname="c" name="a[2]"><failure/></testcase><testcase name="d"><skipped/></testcase></testsuite>`)); err != nil {
		t.Fatal(err)
	}
	for name, one := range map[string]struct{ got, want Counts }{
		"go":    {each(t, goJSON), Counts{"p.TestA": {Ran: 3}, "p.TestB": {Skipped: 1}, "q.TestA": {Ran: 1}, "r": {Ran: 1}, "s": {Skipped: 1}}},
		"tap":   {each(t, tap), Counts{"a": {Ran: 2}, "b": {Ran: 1}, "c": {Skipped: 1}}},
		"junit": {junit.Each, Counts{"c.a": {Ran: 2}, "d": {Skipped: 1}}},
	} {
		if diff := cmp.Diff(one.want, one.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func each(t *testing.T, r reporter) Counts {
	t.Helper()
	tally, err := r.finish()
	if err != nil {
		t.Fatal(err)
	}
	return tally.Each
}

// The rarer a failure showed, the more passes say that it is gone.
func TestRepeatsFollowHowOftenItFailed(t *testing.T) {
	n := Noise{Flake: .02}
	always, often, rarely := n.Repeats(0, 6, .01), n.Repeats(3, 6, .01), n.Repeats(14, 6, .01)
	if always < 2 || always > 6 || often <= always || rarely <= often || rarely > 20 {
		t.Errorf("got %d, %d, %d passes wanted", always, often, rarely)
	}
	if first := n.Repeats(0, 1, .01); first < always {
		t.Errorf("got %d after one failure, want no fewer than the %d after six", first, always)
	}
}
