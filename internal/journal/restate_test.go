package journal_test

import (
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
)

// Two hubs landed a change, and one made way: what joins their logs tells the landing
// that stands, to git and to nobody who counts lines.
func TestAJoinRestatesTheVerdictThatStands(t *testing.T) {
	t.Parallel()
	dir := gittest.Bare(t)
	h := keepIn(t, dir)
	h.decide(journal.Landed, "")
	fork, err := h.Tip(git.QueueLog)
	if err != nil {
		t.Fatal(err)
	}
	say := func(from git.Hash, lines ...journal.Decision) git.Hash {
		t.Helper()
		for _, d := range lines {
			move, err := journal.AppendTo(h.Repo, git.RefUpdate{Ref: git.QueueLog, Old: from}, d.State, []any{d}, keeper)
			if err != nil {
				t.Fatal(err)
			}
			from = move.New
		}
		return from
	}
	head := git.Hash(strings.Repeat("ab", 20))
	line := func(name, state, by string) journal.Decision {
		return journal.Decision{Entry: git.EntryID(name, head), Head: head, State: state, By: by}
	}
	ours := say(fork, line("both", journal.Landed, "a"), line("mine", journal.Landed, "a"), line("again", journal.Landed, "a"),
		line("both", journal.Requeued, "a"), line("waits", journal.Requeued, "a"))
	theirs := say(fork, line("both", journal.Landed, "b"), line("again", journal.Requeued, "b"), line("theirs", journal.Ejected, "b"), line("waits", journal.Requeued, "b"))
	for _, sides := range [][2]git.Hash{{ours, theirs}, {theirs, ours}} {
		text, err := journal.Restated(t.Context(), h.Repo, sides[0], sides[1])
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimSpace(text), "\n")
		if len(got) != 2 || !strings.Contains(got[0], `"entry":"again@`) || !strings.Contains(got[0], `"by":"a"`) ||
			!strings.Contains(got[1], `"entry":"both@`) || !strings.Contains(got[1], `"by":"b"`) || strings.Count(text, `"state":"landed"`) != 2 {
			t.Errorf("restated:\n%s", text)
		}
		if lines := journal.Lines(git.Commit{Message: "join\n\n" + text}); len(lines) != 0 {
			t.Errorf("%d decisions are made again", len(lines))
		}
	}
}
