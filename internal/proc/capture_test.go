package proc

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestA19Capture(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		head, tail int
		writes     []string
		want       string
	}{
		"nothing":          {5, 5, nil, ""},
		"fits":             {5, 5, []string{"01234", "56789"}, "0123456789"},
		"one too many":     {5, 5, []string{"0123456789a"}, "01234\n… 1 bytes left out …\n6789a"},
		"ring goes round":  {2, 3, []string{"abc", "de", "f", "ghij", "k"}, "ab\n… 6 bytes left out …\nijk"},
		"no head":          {0, 3, []string{"abcdef"}, "\n… 3 bytes left out …\ndef"},
		"no tail":          {3, 0, []string{"abcdef"}, "abc\n… 3 bytes left out …\n"},
		"neither":          {0, 0, []string{"abc"}, "\n… 3 bytes left out …\n"},
		"torn characters":  {4, 4, []string{"abc→defghi→abc"}, "abc\n… 12 bytes left out …\nabc"},
		"NUL and bad UTF8": {9, 9, []string{"a\x00b\xff\xfec"}, "a\uFFFDb\uFFFDc"},
		"whole character":  {3, 0, []string{"→abc"}, "→\n… 3 bytes left out …\n"},
	} {
		out := NewCapture(c.head, c.tail, nil)
		for _, w := range c.writes {
			if n, err := out.Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("%s: got %d, %v", name, n, err)
			}
		}
		if got := out.String(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestCaptureKeepsHeadAndTail(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		head, tail := rapid.IntRange(0, 40).Draw(t, "head"), rapid.IntRange(0, 40).Draw(t, "tail")
		var spool bytes.Buffer
		out := NewCapture(head, tail, &spool)
		var all []byte
		for _, w := range rapid.SliceOf(rapid.SliceOfN(rapid.ByteRange(0, 127), 0, 50)).Draw(t, "writes") {
			all = append(all, w...)
			if _, err := out.Write(w); err != nil {
				t.Fatal(err)
			}
		}
		got := out.String()
		if !utf8.ValidString(got) || strings.ContainsRune(got, 0) || out.Total() != int64(len(all)) || !bytes.Equal(spool.Bytes(), all) {
			t.Fatalf("got %q", got)
		}
		if len(all) <= head+tail {
			if got != Text(all) {
				t.Fatalf("got %q, want %q", got, all)
			}
			return
		}
		if !strings.HasPrefix(got, Text(all[:head])+"\n…") || !strings.HasSuffix(got, "…\n"+Text(all[len(all)-tail:])) {
			t.Fatalf("got %q of %q", got, all)
		}
	})
}

func TestCaptureOutlivesItsSpool(t *testing.T) {
	t.Parallel()
	out := NewCapture(10, 10, failing{})
	if n, err := out.Write([]byte("abc")); n != 3 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if out.Err() == nil || out.String() != "abc" {
		t.Errorf("got %v, %q", out.Err(), out.String())
	}
}

func FuzzCapture(f *testing.F) {
	f.Add([]byte("abc→def"), 3, 3)
	f.Add([]byte("\xff\x00\xe2\x86"), 1, 2)
	f.Fuzz(func(t *testing.T, data []byte, head, tail int) {
		out := NewCapture(head%64, tail%64, nil)
		_, _ = out.Write(data)
		if s := out.String(); !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			t.Errorf("got %q", s)
		}
	})
}
