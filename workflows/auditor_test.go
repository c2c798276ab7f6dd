package workflows_test

import (
	"testing"

	"greenward/internal/gittest"
	"greenward/workflows"
)

func TestAuditorRecomputesWhatMainGains(t *testing.T) {
	t.Parallel()
	r := &remote{TB: t, dir: gittest.Bare(t)}
	r.url = r.dir
	base := gittest.Commit(t, r.dir, "main", "begin", map[string]string{"a": "a\n", "b": "b\n"})
	s := r.site()
	a := &workflows.Auditor{Hub: s.hub, Main: "refs/heads/main"}
	once := func() (int, int) {
		report, err := a.Once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return report.Commits, len(report.Mismatches)
	}
	if commits, _ := once(); commits != 0 {
		t.Errorf("what was there is audited: %d", commits)
	}
	s.land("one", map[string]string{"one": "1\n"})
	if commits, bad := once(); commits != 1 || bad != 0 {
		t.Errorf("a landing: %d commits, %d mismatches", commits, bad)
	}
	// Somebody's merge drops what a side brought.
	gittest.Git(t, s.dir, "update-ref", "refs/heads/side", base)
	side := gittest.Commit(t, s.dir, "side", "side", map[string]string{"b": "b2\n"})
	merge := gittest.Git(t, s.dir, "commit-tree", "main^{tree}", "-p", "main", "-p", side, "-m", "merge")
	gittest.Git(t, s.dir, "update-ref", "refs/heads/main", merge)
	if commits, bad := once(); commits != 1 || bad != 1 {
		t.Errorf("a wrong merge: %d commits, %d mismatches", commits, bad)
	}
	if commits, bad := once(); commits != 0 || bad != 0 {
		t.Errorf("nothing new: %d commits, %d mismatches", commits, bad)
	}
}
