package journal

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/git"
)

func TestListedIsReadBack(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	a, b, c := git.Hash(strings.Repeat("ab", 20)), git.Hash(strings.Repeat("cd", 20)), git.Hash(strings.Repeat("ef", 20))
	want := map[git.Hash]Listed{a: {at, 5, "ada lovelace@example.com"}, b: {time.Unix(0, 0).UTC(), 0, "agent/worker"}}
	text := FormatListed(map[git.Hash]Listed{a: want[a], b: want[b], c: {at, 5, "two\nlines"}})
	if diff := cmp.Diff(want, ParseListed(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for n := range text { // torn anywhere
		for h, head := range ParseListed(text[:n]) {
			if head != want[h] {
				t.Fatalf("cut at %d: %s is %+v", n, h, head)
			}
		}
	}
}

func FuzzParseListed(f *testing.F) {
	f.Add([]byte(strings.Repeat("ab", 20) + " 1 5 lane\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list := ParseListed(data)
		if diff := cmp.Diff(list, ParseListed(FormatListed(list))); diff != "" && !strings.Contains(string(data), "\r") {
			t.Errorf("(-first +again):\n%s", diff)
		}
	})
}
