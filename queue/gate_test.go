package queue

import (
	"strings"
	"testing"

	"greenward/internal/gittest"
)

func TestGate(t *testing.T) {
	t.Parallel()
	conflict := "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n"
	policy := "queue:\n  gate: {max_file: 200B, deny: [\"**/*.pem\"], skip: [{rule: markers, paths: [\"testdata/**\"]}]}\n"
	w := newWorld(t, map[string]string{".greenward.yml": policy, "old.md": conflict, "old.pem": "x\n", "a.txt": "a\n"})
	base := w.git("rev-parse", "main")
	w.branch("01", base, "markers", map[string]string{"a.txt": conflict})
	w.branch("02", base, "markers that were there", map[string]string{"old.md": "more\n" + conflict})
	w.branch("03", base, "one more", map[string]string{"old.md": conflict + conflict})
	w.branch("04", base, "testdata", map[string]string{"testdata/x": conflict})
	w.branch("05", base, "big", map[string]string{"sub/dir/big": strings.Repeat("x", 201)})
	w.branch("06", base, "key", map[string]string{"sub/x.pem": "x\n", "fine": "f\n"})
	w.branch("07", base, "old key", map[string]string{"old.pem": "y\n"})
	w.branch("08", base, "moved", map[string]string{"old.md": gittest.Deleted, "new.md": conflict})
	w.branch("09", base, "policy", map[string]string{".greenward.yml": "queue: {polcy: gated}\n"})
	w.branch("10", base, "good policy", map[string]string{".greenward.yml": policy + "# changed\n"})
	w.wantLanded(w.land(),
		"01 ejected gate [a.txt]", "02 landed", "03 ejected gate [old.md]", "04 landed", "05 ejected gate [sub/dir/big]",
		"06 ejected gate [sub/x.pem]", "07 landed", "08 landed", "09 ejected policy [.greenward.yml]", "10 landed")
}

// What waits behind a change of the policy is judged by the policy that it lands on.
func TestAPolicyThatLandsJudgesWhatWaitsBehindIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{".greenward.yml": "checks: none\n", "a.txt": "a\n"})
	base := w.git("rev-parse", "main")
	w.branch("1", base, "before", map[string]string{"1.pem": "x\n"})
	w.branch("2", base, "deny", map[string]string{".greenward.yml": "checks: none\nqueue: {gate: {deny: [\"*.pem\"]}}\n"})
	w.branch("3", base, "behind", map[string]string{"3.pem": "x\n"})
	w.branch("4", base, "after", map[string]string{"4.txt": "x\n"})
	w.wantLanded(w.land(), "1 landed", "2 landed", "3 ejected gate [3.pem]", "4 landed")
}

func TestMalformedPolicyOnMainDoesNotStopTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "a\n", ".greenward.yml": "queue: {method: squash}\n"})
	gittest.Commit(t, w.dir, "main", "pushed by hand", map[string]string{".greenward.yml": "nonsense: 1\n"})
	base := w.git("rev-parse", "main")
	w.branch("x", base, "one", map[string]string{"a.txt": "1\n"})
	w.branch("x", base, "two", map[string]string{"a.txt": "2\n"})
	w.wantLanded(w.land(), "x landed")
	if got := w.git("log", "-1", "--format=%s %b", "main"); !strings.HasPrefix(got, "one * two") {
		t.Errorf("the older policy's squash was not used: %q", got)
	}
	w.branch("y", base, "mend", map[string]string{".greenward.yml": "queue: {method: rebase}\n"})
	w.wantLanded(w.land(), "y landed")
}

func TestOddPathsLand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "a\n", "-dash": "1\n", "new\nline": "1\n", "sp ace": "1\n", "caf\xe9": "1\n", "ümlaut": "1\n"})
	base := w.git("rev-parse", "main")
	odd := map[string]string{"-dash": "2\n", "new\nline": "2\n", "sp ace": "2\n", "caf\xe9": "2\n", "ümlaut": "2\n", "--output=x": "2\n", ":(glob)x": "2\n"}
	w.branch("1", base, "all", odd)
	other := map[string]string{}
	for name := range odd {
		other[name] = "3\n"
	}
	w.branch("2", base, "all", other)
	got := w.land()
	w.wantLanded(got, "1 landed", `2 ejected conflict [--output=x -dash :(glob)x "caf\351" new`+"\nline sp ace ümlaut]")
	if report, err := Audit(t.Context(), w.hub, "", ""); err != nil || len(report.Mismatches) != 0 || report.Commits != 1 {
		t.Errorf("audit: %+v, %v", report, err)
	}
}
