package tools

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEditTouchesNothingElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, old, new string
		all            bool
		want           string
	}{
		"A34 LF on CRLF":        {"a\r\nb\r\nc\r\n", "a\nb\n", "a\nB\nB2\n", false, "a\r\nB\r\nB2\r\nc\r\n"},
		"A34 CRLF on CRLF":      {"a\r\nb\r\n", "a\r\nb", "x\r\ny", false, "x\r\ny\r\n"},
		"A34 CRLF on LF":        {"a\nb\nc\n", "a\r\nb", "a\r\nx\r\nb", false, "a\nx\nb\nc\n"},
		"A34 insertion in CRLF": {"a\r\nb\r\n", "a", "a\nx", false, "a\r\nx\r\nb\r\n"},
		"A34 append in CRLF":    {"a\r\nb\r\nend", "end", "end\nmore\n", false, "a\r\nb\r\nend\r\nmore\r\n"},
		"mixed ends stay":       {"a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "a\nb\nC\nd", false, "a\r\nb\nC\r\nd\n"},
		"mixed, part in LF":     {"a\r\nb\nc\n", "b\nc", "x\ny\nz", false, "a\r\nx\ny\nz\n"},
		"lone CR is a byte":     {"a\rb\r\nc", "a\rb\nc", "a\rB\nc", false, "a\rB\r\nc"},
		"no end of line":        {"last", "last", "last\n", false, "last\n"},
		"delete":                {"a\nb\nc\n", "b\n", "", false, "a\nc\n"},
		"trailing space":        {"a \t\nb\n", "a \t\n", "a\n", false, "a\nb\n"},
		"BOM":                   {"\xef\xbb\xbfa\n", "a", "b", false, "\xef\xbb\xbfb\n"},
		"Latin-1":               {"caf\xe9 \xff\n", "café", "thé", false, "th\xe9 \xff\n"},
		"one bad byte":          {"x\xc3\xa9\xff y\n", "y", "z", false, "x\xc3\xa9\xff z\n"},
		"UTF-16":                {"\xff\xfea\x00\r\x00\n\x00\xe9\x00", "a\né", "a\né\nb", false, "\xff\xfea\x00\r\x00\n\x00\xe9\x00\r\x00\n\x00b\x00"},
		"UTF-16 big":            {"\xfe\xff\x00a\xd8\x3d\xde\x00", "😀", "b", false, "\xfe\xff\x00a\x00b"},
		"all":                   {"a b a\r\na", "a", "x\n", true, "x\r\n b x\r\n\r\nx\r\n"},
		"all without overlap":   {"aaaa", "aa", "b", true, "bb"},
		"common bytes of runes": {"é\n", "é", "è", false, "è\n"},
		"pattern characters":    {"a.*$1\n", "a.*$1", "$1\\1%s", false, "$1\\1%s\n"},
	} {
		after, _, err := inspect([]byte(c.file)).replace(c.old, c.new, c.all)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(c.want, string(after)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func TestEditRefusesWhatIsNotExact(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, old, new, want string }{
		"missing":          {"a\nb\n", "c", "d", `0 matches of "old_str"; read the file again`},
		"twice":            {"a\nb\na\n", "a", "x", `2 matches of "old_str", at lines 1, 3`},
		"overlapping":      {"aaa", "aa", "x", "2 matches"},
		"many":             {strings.Repeat("a\n", 20), "a", "x", "20 matches of \"old_str\", at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …;"},
		"white space":      {"x\n\tif a {\n\t\tb()\n", "  if a {\n    b()", "y", "0 matches of \"old_str\"; with other white space it stands at line 2:\n     2\t\tif a {\n     3\t\t\tb()\n"},
		"empty":            {"a", "", "x", "is empty"},
		"same":             {"a\r\n", "a\n", "a\r\n", "are the same"},
		"not in Latin-1":   {"caf\xe9", "caf", "日", "which has no '日'"},
		"only white space": {"a\n", "\n\n\n", "x", "0 matches"},
		"empty file":       {"", "a", "b", "0 matches"},
		"half a character": {"é", "\xc3", "x", "must be text"},
	} {
		after, _, err := inspect([]byte(c.file)).replace(c.old, c.new, false)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %q, %v; want %q", name, after, err, c.want)
		}
	}
}

// checkEdit compares an edit with a naive one on the decoded text, and proves
// that bytes before and after it are those of the file.
func checkEdit(t interface{ Fatalf(string, ...any) }, data []byte, old, replacement string, all bool) {
	c := inspect(data)
	if c.coding == binary {
		return
	}
	after, found, err := c.replace(old, replacement, all)
	if err != nil {
		return
	}
	from := c.offsets(found[0])[0]
	to := c.offsets(found[len(found)-1] + len(plain(old)))[0]
	if !bytes.HasPrefix(after, data[:from]) || !bytes.HasSuffix(after, data[to:]) {
		t.Fatalf("edit of %q, %q to %q: got %q: bytes around it changed", data, old, replacement, after)
	}
	if loneCR(c.text()) || loneCR(plain(replacement)) || loneCR(plain(old)) || strings.ContainsAny(replacement, "\x00\uFEFF") || !utf8.ValidString(replacement) {
		return // pieces that can make new pairs with their neighbours
	}
	got := inspect(after)
	got.coding, got.mark = c.coding, c.mark
	want := strings.Replace(c.text(), plain(old), plain(replacement), len(found))
	if text := got.text(); text != want {
		t.Fatalf("edit of %q, %q to %q: got %q, want %q", data, old, replacement, text, want)
	}
}

func loneCR(s string) bool { return strings.ContainsRune(s, '\r') }

func TestEditIsTheNaiveOneOnText(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"a", "b", "aa", "\n", "\r\n", " ", "é", "日", "\xe9", "ab\n", "\t"})
	text := func(t *rapid.T, label string, most int) string {
		return strings.Join(rapid.SliceOfN(piece, 0, most).Draw(t, label), "")
	}
	rapid.Check(t, func(t *rapid.T) {
		checkEdit(t, []byte(text(t, "file", 30)), text(t, "old", 3), text(t, "new", 4), rapid.Bool().Draw(t, "all"))
	})
}

func FuzzEdit(f *testing.F) {
	f.Add([]byte("a\r\nb\n"), "a\n", "x\ny\n", false)
	f.Add([]byte("\xff\xfea\x00\n\x00"), "a", "é", true)
	f.Add([]byte("caf\xe9\r"), "é", "\r\n", true)
	f.Add([]byte("\xfe\xff\xd8\x00\x00\n"), "\n", "", false)
	f.Fuzz(func(t *testing.T, data []byte, old, replacement string, all bool) {
		checkEdit(t, data, old, replacement, all)
	})
}

// Every position of a text leads to a byte, and encoding decodes again.
func FuzzCoding(f *testing.F) {
	f.Add([]byte("a\r\n\xff"))
	f.Add([]byte("\xff\xfea\x00\x00\xd8"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := inspect(data)
		if c.coding == binary {
			return
		}
		text := c.text()
		if !utf8.ValidString(text) {
			t.Fatalf("%q decodes to %q", data, text)
		}
		if got := c.offsets(0, len(text)); got[0] != c.mark || got[1] != len(data) {
			t.Fatalf("%q: got offsets %v", data, got)
		}
		if strings.ContainsRune(text, utf8.RuneError) || bytes.ContainsRune(data, '\r') {
			return
		}
		if again, err := c.encode(text, "\n"); err != nil || !bytes.Equal(again, data[c.mark:]) {
			t.Fatalf("%q: got %q, %v", data, again, err)
		}
	})
}

func FuzzGlob(f *testing.F) {
	for _, glob := range []string{"*.go", "a/**/b", "{a,b}", "[!a]", "[", "{", "}", "a]", `\`, "**"} {
		f.Add(glob, "a/b.go")
	}
	f.Fuzz(func(t *testing.T, glob, file string) {
		if fits, err := compileGlob(glob); err == nil {
			fits(file)
		}
	})
}

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		glob, file string
		want       bool
	}{
		{"", "any/thing", true},
		{"*.go", "a/b/c.go", true},
		{"*.go", "c.gox", false},
		{"a/*.go", "a/b.go", true},
		{"a/*.go", "a/b/c.go", false},
		{"a/**/*.go", "a/c.go", true},
		{"a/**/*.go", "a/b/d/c.go", true},
		{"**/c.go", "c.go", true},
		{"a/", "a/b/c", true},
		{"./a/b", "a/b", true},
		{"/a", "a", true},
		{"{a,b*}.x", "bb.x", true},
		{"[!a]", "a", false},
		{"[!a]", "b", true},
		{"a.b", "axb", false},
		{"[", "[", true},
		{"日?", "日本", true},
	} {
		fits, err := compileGlob(c.glob)
		if err != nil {
			t.Errorf("%s: %v", c.glob, err)
		} else if got := fits(c.file); got != c.want {
			t.Errorf("%s on %s: got %v", c.glob, c.file, got)
		}
	}
}
