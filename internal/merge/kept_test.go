package merge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"greenward/internal/git"
)

// lands rebases a commit with these bytes for author, further headers and message, on a
// main that has moved, and gives the author and the message that are stored then.
func (f *fixture) lands(author, headers, message string) (gotAuthor, gotMessage, all string) {
	f.Helper()
	raw := "tree " + f.git("rev-parse", "side^{tree}") + "\nparent " + f.git("rev-parse", "side~1") + "\nauthor " + author + " 1580000000 +0530\ncommitter C <c@x> 1580000000 +0530\n" + headers + "\n" + message
	name := filepath.Join(f.TempDir(), "raw")
	if err := os.WriteFile(name, []byte(raw), 0o600); err != nil {
		f.Fatal(err)
	}
	f.branch("x", git.Hash(f.git("hash-object", "-t", "commit", "-w", name)))
	out := f.apply(Rebase, "x")
	if len(out.Commits) != 1 {
		f.Fatalf("%q did not land: %+v", raw, out)
	}
	all = f.git("cat-file", "commit", string(out.Tip))
	head, gotMessage, _ := strings.Cut(all, "\n\n")
	for line := range strings.SplitSeq(head, "\n") {
		if is, ok := strings.CutPrefix(line, "author "); ok {
			gotAuthor = is
		}
	}
	return strings.TrimSuffix(gotAuthor, " 1580000000 +0530"), gotMessage, all
}

// sided is a fixture with one change of main and one beside it.
func sided(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.branch("side", f.commit("main", "begin", map[string]string{"a": "1\n"}))
	f.commit("side", "side", map[string]string{"b": "1\n"})
	f.commit("main", "other", map[string]string{"c": "1\n"})
	return f
}

const added = "Change: x@0123456789ab"

func TestRebaseKeepsAMessageByteByByte(t *testing.T) {
	t.Parallel()
	f := sided(t)
	paragraphs := rapid.SampledFrom([]string{
		"https://example.com/x", "see https://example.com/x", "fix: the thing\nand more", "  indented:\n\tby a tab", "# no comment\n#1", "* a\n* b", "Körper ✓",
		"Note:no blank", "Note: long\n  folded line\nFixes: 1", "Signed-off-by: A <a@a>", "A: 1\nB: 2", "ends in blanks  ", "\nafter an empty line", "a\r\nb", "diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b",
		"(cherry picked from commit 1111111111111111111111111111111111111111)",
	})
	rapid.Check(t, func(rt *rapid.T) {
		var message strings.Builder
		message.WriteString(rapid.SampledFrom([]string{"subject", "Fixes: 12", "fix: it", "s  two blanks", "sübject", "https://example.com/y"}).Draw(rt, "subject"))
		for _, p := range rapid.SliceOfN(paragraphs, 0, 4).Draw(rt, "body") {
			message.WriteString("\n\n" + p)
		}
		name := rapid.SampledFrom([]string{"Jürgen <j@x>", "A B <a.b+c@x>", "Ω 猫 <>", "O'Neil (x) <o@x>"}).Draw(rt, "author")
		author, got, all := f.lands(name, "", message.String()+rapid.SampledFrom([]string{"", "\n"}).Draw(rt, "end"))
		if author != name {
			rt.Errorf("author %q became %q", name, author)
		}
		if rest, kept := strings.CutPrefix(got, message.String()); !kept || strings.Trim(rest, "\n") != added || len(rest) > len(added)+2 {
			rt.Errorf("%q became %q", message.String(), got)
		}
		if read := git.ParseMessage(got).Trailers; len(read) == 0 || read[len(read)-1].Key != ChangeKey {
			rt.Errorf("no trailer is read in %q", all)
		}
	})
}

func TestRebaseReadsAForeignEncoding(t *testing.T) {
	t.Parallel()
	f := sided(t)
	for name, tt := range map[string]struct{ author, headers, message, wantAuthor, want string }{
		"Latin-1":     {"J\xfcrgen <j@x>", "encoding ISO-8859-1\n", "s\xfcbject\n\nb\xf6dy\n", "Jürgen <j@x>", "sübject\n\nbödy\n\n" + added},
		"KOI8-R":      {"\xe9\xd7\xc1\xce <i@x>", "encoding KOI8-R\n", "\xe4\xc1\n", "Иван <i@x>", "Да\n\n" + added},
		"not stated":  {"J\xfcrgen <j@x>", "", "s\xfcbject\n", "Jürgen <j@x>", "sübject\n\n" + added},
		"no such one": {"J\xfcrgen <j@x>", "encoding nonsense\n", "s\xfcbject", "Jürgen <j@x>", "sübject\n\n" + added},
	} {
		author, message, all := f.lands(tt.author, tt.headers, tt.message)
		if author != tt.wantAuthor || message != tt.want || strings.Contains(all, "\nencoding ") {
			t.Errorf("%s: %q", name, all)
		}
	}
}
