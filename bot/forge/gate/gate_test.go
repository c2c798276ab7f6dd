package gate

import (
	"strings"
	"testing"
	"time"
)

func run(name, conclusion string, id, app int64) Run {
	return Run{Name: name, Conclusion: conclusion, ID: id, App: app, Done: conclusion != ""}
}

func TestQ17Q18Q19Q21Q26Missing(t *testing.T) {
	start := time.Unix(1e9, 0)
	ci := Rules{Checks: []Check{{Name: "ci"}}}
	for _, tc := range []struct {
		name  string
		rules Rules
		pull  Pull
		now   time.Duration
		want  string // "" passes; else words of what is missing
	}{
		{"nothing is demanded", Rules{}, Pull{}, 0, ""},
		{"passed", ci, Pull{Runs: []Run{run("ci", "success", 1, 7)}}, 0, ""},
		{"passed status", ci, Pull{Runs: []Run{run("ci", "success", 1, 0)}}, 0, ""},
		{"failed", ci, Pull{Runs: []Run{run("ci", "failure", 1, 7)}}, 0, "`ci` ended as `failure`"},
		{"another name", ci, Pull{Runs: []Run{run("ci ", "success", 1, 7), run("CI", "success", 2, 7)}}, 0, "has not started"},
		{"Q06 no run on this head", ci, Pull{}, 0, "has not started on this head."},
		{"Q21 never starts", ci, Pull{Since: start}, 11 * time.Minute, "has not started on this head for more than 10 minutes: does its workflow"},
		{"G11 three of five", Rules{Checks: []Check{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}}}, Pull{Runs: []Run{
			run("a", "success", 1, 7), run("b", "success", 2, 7), run("c", "success", 3, 7),
		}}, 0, "`d` has not started"},
		{"Q17 asked for again", ci, Pull{Runs: []Run{run("ci", "failure", 1, 7), run("ci", "", 2, 7)}}, 0, "is not finished"},
		{"Q17 passed before, runs again", ci, Pull{Runs: []Run{run("ci", "success", 1, 7), run("ci", "", 2, 7)}}, 0, "is not finished"},
		{"Q19 the newest attempt counts", ci, Pull{Runs: []Run{run("ci", "failure", 5, 7), run("ci", "success", 4, 7)}}, 0, "`failure`"},
		{"Q19 two Apps, one name", ci, Pull{Runs: []Run{run("ci", "success", 5, 7), run("ci", "failure", 4, 8)}}, 0, "`failure`"},
		{"pinned to an App", Rules{Checks: []Check{{"ci", 7}}}, Pull{Runs: []Run{run("ci", "success", 1, 8)}}, 0, "has not started"},
		{"Q18 skipped, its workflow failed", ci, Pull{Runs: []Run{{Name: "ci", Conclusion: "skipped", Done: true, Whole: "failure"}}}, 0, "was skipped"},
		{"Q18 skipped, its workflow succeeded", ci, Pull{Runs: []Run{{Name: "ci", Conclusion: "skipped", Done: true, Whole: "success"}}}, 0, ""},
		{"Q18 neutral", ci, Pull{Runs: []Run{run("ci", "neutral", 1, 7)}}, 0, "without an opinion"},
		{"Q26 no result yet", ci, Pull{Runs: []Run{{Name: "ci", Done: true}}}, 0, "has no conclusion"},
		{"H33 merge queue", Rules{MergeQueue: true}, Pull{}, 0, "own merge queue"},
		{"blocked by a label", Rules{BlockLabels: []string{"wip"}}, Pull{Labels: []string{"wip"}}, 0, "`wip` blocks"},
		{"a review is missing", Rules{Reviews: 1}, Pull{}, 0, "0 approvals"},
		{"approved", Rules{Reviews: 1}, Pull{Reviews: []Review{{By: 3, ID: 1, State: "APPROVED", Write: true}}}, 0, ""},
		{"approved by a stranger", Rules{Reviews: 1}, Pull{Reviews: []Review{{By: 3, ID: 1, State: "APPROVED"}}}, 0, "0 approvals"},
		{"approved by its author", Rules{Reviews: 1}, Pull{Author: 3, Reviews: []Review{{By: 3, ID: 1, State: "APPROVED", Write: true}}}, 0, "0 approvals"},
		{"approved twice by one", Rules{Reviews: 2}, Pull{Reviews: []Review{{By: 3, ID: 1, State: "APPROVED", Write: true}, {By: 3, ID: 2, State: "APPROVED", Write: true}}}, 0, "1 approval "},
		{"dismissed", Rules{Reviews: 1}, Pull{Reviews: []Review{{By: 3, ID: 1, State: "APPROVED", Write: true}, {By: 3, ID: 2, State: "DISMISSED", Write: true}}}, 0, "0 approvals"},
		{"a comment afterwards", Rules{Reviews: 1}, Pull{Reviews: []Review{{By: 3, ID: 1, State: "APPROVED", Write: true}, {By: 3, ID: 2, State: "COMMENTED", Write: true}}}, 0, ""},
		{"changes asked for", Rules{Reviews: 1}, Pull{Reviews: []Review{{By: 3, ID: 1, State: "APPROVED", Write: true}, {By: 4, ID: 2, State: "CHANGES_REQUESTED", Write: true}}}, 0, "1 reviewer asks for"},
		{"stale", Rules{Reviews: 1, DropStale: true}, Pull{Head: "b", Reviews: []Review{{By: 3, ID: 1, State: "APPROVED", Head: "a", Write: true}}}, 0, "0 approvals"},
		{"not stale", Rules{Reviews: 1, DropStale: true}, Pull{Head: "a", Reviews: []Review{{By: 3, ID: 1, State: "approved", Head: "a", Write: true}}}, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := strings.Join(Missing(tc.rules, tc.pull, start.Add(tc.now)), " ")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
