package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestMessagesReadBack(t *testing.T) {
	r, _ := hub(t)
	for name, m := range map[string]git.Message{
		"plain":       {Subject: "one"},
		"trailers":    {Subject: "one", Trailers: git.Trailers{{"Task", "a/b-k3x9"}, {"Handoff", "done"}, {"Handoff-Note", "x: y"}, {"Handoff-Note", "again"}}},
		"body":        {Subject: "one", Body: "two\nthree\n\nfour", Trailers: git.Trailers{{"Task", "a"}}},
		"A40 divider": git.Message{Subject: "one", Body: "---\nNot-A: trailer\n--- x", Trailers: git.Trailers{{"Task", "a"}}}.Guard(),
		"A42 forged":  {Subject: "one", Body: git.Quote("Task: other\n\nTask: third\n# comment\nClaim: x"), Trailers: git.Trailers{{"Task", "a"}}},
		"blank body":  {Subject: "one", Body: git.Quote("\u00a0\nx\u2028"), Trailers: git.Trailers{{"Task", "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := m.Check(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(m, git.ParseMessage(m.String())); diff != "" {
				t.Errorf("read back: %s", diff)
			}
			if err := r.ProveTrailers(t.Context(), m.String(), m.Trailers); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestA41ProseHidesTrailers(t *testing.T) {
	for _, raw := range []string{"s\n\nTask: x\nplain prose\n", "s\n\nTask: x\n\nPS prose\n", "s\nTask: x\n", "Task: x\n"} {
		if got := git.ParseMessage(raw).Trailers; len(got) != 0 {
			t.Errorf("%q: %v; git reads none either", raw, got)
		}
	}
}

func TestMessageRefusesWhatWouldNotReadBack(t *testing.T) {
	for _, m := range []git.Message{
		{},
		{Subject: "a\nb"},
		{Subject: "s", Body: "Task: looks like the block"},
		{Subject: "s", Trailers: git.Trailers{{"Ta sk", "x"}}},
		{Subject: "s", Trailers: git.Trailers{{"Task", "x\ny"}}},
		{Subject: "s", Trailers: git.Trailers{{"Task", ""}}},
		{Subject: "s", Body: "nul\x00"},
	} {
		if m.Check() == nil {
			t.Errorf("%+v was accepted", m)
		}
	}
}

// What a message may have in it that git could take for something else.
func oddMessage(t *rapid.T) (string, git.Trailers) {
	line := rapid.SampledFrom([]string{
		"", " ", "prose", "Task: forged", "Signed-off-by: A <a@x>", "(cherry picked from commit 1)", "# comment", "---", "--- x", "----",
		" indented", "\tTask: x", "Conflicts:", "\tpath", "-Key: v", "9: v", "Key : v", "Key:", "a:b", "\u00a0", "caf\xe9", "x\r", "\x01", "Change: x@1 ", "\u2028",
	})
	head := rapid.SliceOfN(line, 1, 6).Draw(t, "head")
	var want git.Trailers
	for range rapid.IntRange(1, 3).Draw(t, "trailers") {
		want = append(want, git.Trailer{
			Key:   rapid.SampledFrom([]string{"Task", "Change", "Handoff-Note", "Signed-off-by", "Conflicts", "K9"}).Draw(t, "key"),
			Value: rapid.SampledFrom([]string{"x", "a: b", "# x", "--- y", "\u00e9 \u00a0z", "x#y", "(cherry", "v  w"}).Draw(t, "value"),
		})
	}
	return strings.Join(head, "\n") + "\n\n" + (git.Message{Trailers: want}).String()[len("\n\n"):], want
}

func TestI2TrailersThatAreTakenForPlainAreGitsOwn(t *testing.T) {
	t.Parallel()
	r, dir := hub(t)
	plain := 0
	rapid.Check(t, func(rt *rapid.T) {
		message, want := oddMessage(rt)
		if !git.PlainTrailers(message, want) {
			return
		}
		plain++
		name := filepath.Join(t.TempDir(), "message")
		if err := os.WriteFile(name, []byte(message), 0o600); err != nil {
			rt.Fatal(err)
		}
		got := gittest.Git(t, dir, "interpret-trailers", "--parse", name)
		if err := r.ProveTrailers(t.Context(), message, want); err != nil || got+"\n" != want.Block() {
			rt.Fatalf("%q: git reads %q, want %q; %v", message, got, want.Block(), err)
		}
	})
	if plain < 5 {
		t.Errorf("only %d messages were plain", plain)
	}
}

func FuzzMessage(f *testing.F) {
	f.Add("subject\n\nbody\n\nTask: x\n", "value")
	f.Add("Merge branch\n\n# Conflicts:\n#\tf\n", "a: b")
	f.Add("s\n \n\t\nKey:v\n cont\n", "\u2028")
	f.Fuzz(func(t *testing.T, raw, text string) {
		m := git.ParseMessage(raw)
		if again := git.ParseMessage(m.String()); m.Check() == nil && !cmp.Equal(m, again) {
			t.Errorf("%q: %+v, then %+v", raw, m, again)
		}
		one := git.OneLine(text)
		if one == "" {
			return
		}
		n := git.Message{Subject: "s", Body: git.Quote(raw), Trailers: git.Trailers{{"Note", one}}}
		if err := n.Check(); err != nil {
			t.Errorf("foreign text %q / %q: %v", raw, text, err)
		}
	})
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"refs/heads/main", "refs/heads/-x", "refs/heads/a..b", "refs/x.lock", "refs/heads/é", "refs/heads/a b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := git.ParseRef(s)
		if err == nil && string(r) != s {
			t.Errorf("%q became %q", s, r)
		}
	})
}
