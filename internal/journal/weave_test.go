package journal

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"greenward/internal/git"
)

// TestJoinedLogsLoseAndDoubleNothing lets hubs write, and join each other's logs, in
// random order: whoever reads, from the start or onwards from any point he had
// reached, gets every line once, and the lines of each writer in their order.
func TestJoinedLogsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	const hubs, rounds = 3, 60
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			_, repo := open(t)
			rnd := rand.New(rand.NewPCG(seed, 1))
			logs := make([]git.Ref, hubs)
			for i := range logs {
				logs[i] = git.Ref(fmt.Sprint("refs/greenward/log/hub", i))
			}
			type reader struct {
				at  git.Hash
				got []string
			}
			readers := make([]reader, hubs)
			written := map[string]bool{}
			for n := range rounds {
				i := rnd.IntN(hubs)
				switch rnd.IntN(3) {
				case 0, 1:
					line := fmt.Sprintf("%d-%03d", i, n)
					add(t, repo, logs[i], n+rnd.IntN(20), map[string]string{"line": line})
					written[line] = true
				case 2:
					joinLogs(t, repo, logs[i], logs[rnd.IntN(hubs)], n)
				}
				if rnd.IntN(3) == 0 {
					r := &readers[i]
					var more []string
					r.at, more = readOn(t, repo, logs[i], r.at)
					r.got = append(r.got, more...)
				}
			}
			for _, other := range logs[1:] {
				joinLogs(t, repo, logs[0], other, rounds)
			}
			_, all := readOn(t, repo, logs[0], "")
			_, more := readOn(t, repo, logs[0], readers[0].at)
			for name, got := range map[string][]string{"from the start": all, "onwards": append(readers[0].got, more...)} {
				if sorted := slices.Sorted(slices.Values(got)); len(slices.Compact(sorted)) != len(got) || len(got) != len(written) {
					t.Errorf("%s: %d lines, of %d written: %v", name, len(got), len(written), got)
				}
			}
			for i := range hubs {
				own := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s[0] != byte('0'+i) })
				if !slices.IsSorted(own) {
					t.Errorf("hub %d's lines are out of order: %v", i, own)
				}
			}
		})
	}
}

// joinLogs does what an exchange does with a log that another hub wrote on.
func joinLogs(t *testing.T, repo *git.Repo, ours, theirs git.Ref, n int) {
	t.Helper()
	a, err := repo.Tip(ours)
	if err != nil {
		t.Fatal(err)
	}
	b, err := repo.Tip(theirs)
	if err != nil {
		t.Fatal(err)
	}
	if b.IsZero() || a == b {
		return
	}
	next := b
	if !a.IsZero() {
		if has, err := repo.IsAncestor(t.Context(), b, a); err != nil || has {
			return
		}
		if behind, err := repo.IsAncestor(t.Context(), a, b); err != nil {
			t.Fatal(err)
		} else if !behind {
			if next, err = repo.WriteCommit(git.CommitInput{Tree: git.EmptyTree, Parents: []git.Hash{a, b}, Author: who(n), Committer: who(n), Message: "join"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := repo.Transact(t.Context(), "join", []git.RefUpdate{{Ref: ours, New: next, Old: a}}); err != nil {
		t.Fatal(err)
	}
}

func readOn(t *testing.T, repo *git.Repo, ref git.Ref, since git.Hash) (git.Hash, []string) {
	t.Helper()
	var lines []string
	for r, err := range Read(repo, ref, since) {
		if err != nil {
			t.Fatal(err)
		}
		var v struct{ Line string }
		if err := json.Unmarshal(r.Line, &v); err != nil {
			t.Fatal(err)
		}
		since, lines = r.Commit, append(lines, v.Line)
	}
	return since, lines
}

func TestOrdersOfTwoHubsBothStand(t *testing.T) {
	t.Parallel()
	_, repo := open(t)
	signer, err := git.LoadKey(t.TempDir() + "/key")
	if err != nil {
		t.Fatal(err)
	}
	order := func(n int, verb, arg, reason string) {
		t.Helper()
		if err := Control(t.Context(), repo, signer, Order{Verb: verb, Arg: arg, Reason: reason, By: who(n)}); err != nil {
			t.Fatal(err)
		}
	}
	order(1, VerbFreeze, "", "release")
	parted, err := repo.Tip(git.Control)
	if err != nil {
		t.Fatal(err)
	}
	order(4, VerbTell, "run", "from there")
	theirs, err := repo.Tip(git.Control)
	if err != nil {
		t.Fatal(err)
	}
	other := git.Ref("refs/greenward/other")
	if err := repo.Transact(t.Context(), "part", []git.RefUpdate{{Ref: other, New: theirs}, {Ref: git.Control, New: parted, Old: theirs}}); err != nil {
		t.Fatal(err)
	}
	order(2, VerbTell, "run", "from here")
	order(6, VerbThaw, "", "")
	joinLogs(t, repo, git.Control, other, 7)
	c, err := ReadControls(repo, []string{signer.Public()})
	if err != nil {
		t.Fatal(err)
	}
	if c.Frozen != nil || c.Ignored != 0 || len(c.Tells) != 2 || c.Tells[0].Message != "from here" || c.Tells[1].Message != "from there" {
		t.Errorf("controls of two hubs: %+v", c)
	}
}
