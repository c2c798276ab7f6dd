package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

func open(t *testing.T) (string, *git.Repo) {
	t.Helper()
	dir := gittest.Bare(t)
	repo, err := git.Open(t.Context(), dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	return dir, repo
}

func who(n int) git.Identity {
	return git.Identity{Name: "greenward", Email: "greenward@localhost", When: gittest.Start().Add(time.Duration(n) * time.Second)}
}

func add(t *testing.T, repo *git.Repo, ref git.Ref, n int, lines ...any) {
	t.Helper()
	move, err := Append(repo, ref, fmt.Sprint("record ", n), lines, who(n))
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.Transact(t.Context(), "test", []git.RefUpdate{move}); err != nil {
		t.Fatal(err)
	}
}

func decision(entry string, head git.Hash, state string) Decision {
	return Decision{Entry: entry, Head: head, State: state, At: gittest.Start(), By: "test"}
}

func TestLogReadsBackWithGitAlone(t *testing.T) {
	t.Parallel()
	dir, repo := open(t)
	h := git.Hash(strings.Repeat("ab", 20))
	reason, with := ReasonConflict, "other@0123"
	d := Decision{Entry: "x@abababababab", Head: h, State: Ejected, Reason: &reason, With: &with, Paths: []string{"a <b> & c", "line\nbreak"}, At: gittest.Start().In(time.FixedZone("x", 3600)), Lane: "l", By: "b"}
	add(t, repo, git.QueueLog, 1, d, decision("y@cdcd", h, Landed))
	got := gittest.Git(t, dir, "log", "-1", "--format=%s%n%b", "--grep=x@abababababab", string(git.QueueLog))
	want := `record 1
{"entry":"x@abababababab","head":"` + string(h) + `","state":"ejected","landed":null,"reason":"conflict","paths":["a <b> & c","line\nbreak"],"with":"other@0123","detail":null,"at":"2026-11-01T12:00:00Z","lane":"l","evidence":[],"by":"b"}
{"entry":"y@cdcd","head":"` + string(h) + `","state":"landed","landed":null,"reason":null,"paths":[],"with":null,"detail":null,"at":"2026-11-01T12:00:00Z","lane":null,"evidence":[],"by":"test"}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	all, err := ReadDecisions(repo)
	if err != nil || len(all) != 2 || all[0].Paths[1] != "line\nbreak" {
		t.Errorf("%+v, %v", all, err)
	}
	if tree := gittest.Git(t, dir, "log", "-1", "--format=%T", string(git.QueueLog)); tree != string(git.EmptyTree) {
		t.Errorf("tree %s", tree)
	}
}

func TestPromotionHasNoNullLists(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(Promotion{State: Promoted})
	if err != nil || strings.Count(string(data), "[]") != 3 {
		t.Errorf("%s, %v", data, err)
	}
	_, repo := open(t)
	add(t, repo, git.GreenLog, 1, Promotion{State: Held, Culprits: []Culprit{{Check: "test", Confidence: 0.5, Kind: "change"}}})
	all, err := ReadPromotions(repo)
	if err != nil || len(all) != 1 || all[0].Culprits[0].Confidence != 0.5 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestReadSinceAndForeignLines(t *testing.T) {
	t.Parallel()
	_, repo := open(t)
	for r, err := range Read(repo, git.QueueLog, "") {
		t.Errorf("absent log has %v %v", r, err)
	}
	add(t, repo, git.QueueLog, 1, map[string]int{"n": 1})
	mark, err := repo.Resolve(git.QueueLog)
	if err != nil {
		t.Fatal(err)
	}
	add(t, repo, git.QueueLog, 2, map[string]int{"n": 2}, map[string]int{"n": 3})
	lines := func(since git.Hash) string {
		var all []string
		for r, err := range Read(repo, git.QueueLog, since) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(r.Line))
		}
		return strings.Join(all, " ")
	}
	if got := lines(mark); got != `{"n":2} {"n":3}` {
		t.Errorf("since: %s", got)
	}
	if got := lines(git.Hash(strings.Repeat("1", 40))); got != `{"n":1} {"n":2} {"n":3}` {
		t.Errorf("since a stranger: %s", got)
	}
	found := Lines(git.Commit{Message: "subject {\"a\":1}\n\nprose\n{torn\n{\"n\":4}\r\n {\"n\":5}\n"})
	if len(found) != 1 || string(found[0]) != `{"n":4}` {
		t.Errorf("lines: %s", found)
	}
}

func TestQueueLogRefreshes(t *testing.T) {
	t.Parallel()
	dir, repo := open(t)
	h := git.Hash(strings.Repeat("ab", 20))
	q, err := LoadQueue(repo)
	if err != nil || q.Tip() != "" {
		t.Fatal(err)
	}
	add(t, repo, git.QueueLog, 1, decision("x@1", h, Ejected))
	first, err := repo.Resolve(git.QueueLog)
	if err != nil {
		t.Fatal(err)
	}
	landed := decision("x@1", h, Landed)
	landed.Landed = &h
	add(t, repo, git.QueueLog, 2, landed, decision("y@1", h, Ejected))
	if err := q.Refresh(); err != nil {
		t.Fatal(err)
	}
	if d, ok := q.Find("x@1"); !ok || d.State != Landed {
		t.Errorf("found %+v", d)
	}
	if d, ok := q.ByLanded(h); !ok || d.Entry != "x@1" {
		t.Errorf("by landed %+v", d)
	}
	if len(q.ByHead(h)) != 3 || len(q.Last()) != 2 || len(q.All()) != 3 {
		t.Errorf("%d %d %d", len(q.ByHead(h)), len(q.Last()), len(q.All()))
	}
	gittest.Git(t, dir, "update-ref", string(git.QueueLog), string(first))
	if err := q.Refresh(); err != nil || len(q.All()) != 1 {
		t.Errorf("after a set-back: %d lines, %v", len(q.All()), err)
	}
}

func TestControls(t *testing.T) {
	t.Parallel()
	dir, repo := open(t)
	key := func(name string) git.Signer {
		k, err := git.LoadKey(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	ours, strange := key("ours"), key("strange")
	order := func(signer git.Signer, verb, arg, reason string) {
		if err := Control(t.Context(), repo, signer, Order{Verb: verb, Arg: arg, Reason: reason, By: who(1)}); err != nil {
			t.Fatal(err)
		}
	}
	sha := strings.Repeat("ab", 20)
	order(ours, VerbFreeze, "", "release day")
	order(ours, VerbHold, "", "")
	order(ours, VerbTell, "issue-42", "use\nflex")
	order(ours, VerbStop, "r1", "")
	order(ours, VerbPause, "r2", "")
	order(ours, VerbResume, "r2", "")
	order(ours, VerbExclude, sha, "slow")
	order(ours, VerbAccept, sha, "")
	order(strange, VerbThaw, "", "")
	order(nil, VerbRelease, "", "")
	order(ours, VerbExclude, "HEAD", "not an id")
	c, err := ReadControls(repo, []string{"ops@example.com " + ours.Public() + " comment"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Frozen == nil || *c.Frozen != "release day" || c.Hold == nil || c.Ignored != 3 {
		t.Errorf("%+v", c)
	}
	if len(c.Tells) != 1 || c.Tells[0].Message != "use\nflex" || !c.Stopped["r1"] || len(c.Paused) != 0 || c.Excluded[git.Hash(sha)] != "slow" || !c.Accepted[git.Hash(sha)] {
		t.Errorf("%+v", c)
	}
	order(ours, VerbThaw, "", "")
	order(ours, VerbRelease, "", "")
	order(ours, VerbInclude, sha, "")
	c, err = ReadControls(repo, []string{ours.Public()})
	if err != nil || c.Frozen != nil || c.Hold != nil || len(c.Excluded) != 0 || c.Released.IsZero() {
		t.Errorf("%+v, %v", c, err)
	}
	if err := Control(t.Context(), repo, ours, Order{Verb: "explode", By: who(1)}); !errors.Is(err, ErrUnknownVerb) {
		t.Errorf("err = %v", err)
	}
	if got := gittest.Git(t, dir, "log", "-1", "--skip=2", "--format=%s", string(git.Control)); got != "thaw" {
		t.Errorf("subject %q", got)
	}
}

func TestControlsFromManyHandsAllStand(t *testing.T) {
	t.Parallel()
	_, repo := open(t)
	key, err := git.LoadKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	var hands sync.WaitGroup
	for i := range 6 {
		hands.Go(func() {
			for j := range 3 {
				if err := Control(t.Context(), repo, key, Order{Verb: VerbTell, Arg: "r", Reason: fmt.Sprint(i, j), By: who(i)}); err != nil {
					t.Errorf("tell: %v", err)
				}
			}
		})
	}
	hands.Wait()
	c, err := ReadControls(repo, []string{key.Public()})
	if err != nil || len(c.Tells) != 18 {
		t.Errorf("%d messages, %v", len(c.Tells), err)
	}
}

func TestA15LocalJournalSurvivesATornLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "effects.jsonl")
	l, err := OpenLocal(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "c"} {
		if err := l.Intent(key, map[string]string{"is": key}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Outcome("b", 7); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	last := lines[3]
	for cut := range len(last) + 1 { // the outcome of b is torn at every byte
		if err := os.WriteFile(path, []byte(strings.Join(lines[:3], "")+last[:cut]), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := OpenLocal(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Outcome("a", "done"); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l, err = OpenLocal(path)
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, e := range l.Pending() {
			keys = append(keys, e.Key)
		}
		want := []string{"b", "c"}
		if cut >= len(last)-1 { // all but the line end is there
			want = []string{"c"}
		}
		if diff := cmp.Diff(want, keys); diff != "" {
			t.Errorf("cut at %d (-want +got):\n%s", cut, diff)
		}
		if v, ok := l.Find("a"); !ok || string(v) != `"done"` {
			t.Errorf("outcome of a: %s", v)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
