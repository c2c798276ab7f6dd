package bors

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadAsItsUsersLeftIt(t *testing.T) {
	got := Read([]byte(`# comment
status = [
  "continuous-integration/travis-ci/push", # the old one
  'ci # not a comment',
]
pr_status = [ "license/cla" ]
block_labels = ["do not merge", "wip",]
timeout_sec = 7200
use_squash_merge = true
required_approvals = 2 # two
up_to_date_approvals = true
delete_merged_branches = true
cut_body_after = "---"
[committer]
name = "bors"
email = "bors@example.com"
`))
	want := Config{
		PRStatus: []string{"license/cla"}, BlockLabels: []string{"do not merge", "wip"}, Approvals: 2, UpToDate: true, DeleteBranches: true,
		Notes: []string{
			"status: what the merged commit must pass are the checks of .greenward.yml; a check of GitHub's is named there with remote",
			"use_squash_merge: set queue.method to squash in .greenward.yml",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestBadLinesStopNothing(t *testing.T) {
	got := Read([]byte("block_labels = [\"a\"\nrequired_approvals = many\nwhat\npr_status = \"x\"\ndelete_merged_branches = true\r\n"))
	if !got.DeleteBranches && len(got.Notes) == 0 {
		t.Fatalf("%+v", got)
	}
	if got := Read([]byte("required_approvals = many\nwhat\npr_status = \"x\"\ndelete_merged_branches = true\r\n")); !got.DeleteBranches || len(got.Notes) != 3 {
		t.Fatalf("%+v", got)
	}
	if got := Read([]byte("required_approvals = 99\n" + strings.Repeat("# x\n", 50_000) + "delete_merged_branches = true\n")); got.Approvals != 6 || got.DeleteBranches || len(got.Notes) != 1 {
		t.Fatalf("%+v", got)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("status = [\n 'a' ]\n[x]\ny = \"#\" # z")
	f.Fuzz(func(t *testing.T, text string) {
		c := Read([]byte(text))
		if c.Approvals < 0 || c.Approvals > 6 || len(c.Notes) > 20 {
			t.Fatalf("%+v", c)
		}
	})
}
