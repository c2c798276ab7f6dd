package bot

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestQ62CommandsAreSpokenNotQuoted(t *testing.T) {
	merge := []Command{{Verb: VerbMerge}}
	for _, tc := range []struct {
		body string
		want []Command
	}{
		{"/merge", merge},
		{"LGTM\n\nbors r+\n", merge},
		{"  @bors r+  ", merge},
		{"bors merge", merge},
		{"/merge 0123ABC", []Command{{Verb: VerbMerge, SHA: "0123abc"}}},
		{"/greenward run", []Command{{Verb: VerbRun}}},
		{"`code` and `more`\n/merge", merge},
		{"> quoted\n\n/merge", merge},
		{"<!-- note -->\n/merge", merge},
		{"```\ncode\n```\n/merge", merge},
		{"> bors r+", nil},
		{"> said\nbors r+", nil}, // a lazy line of the quotation
		{"    /merge", nil},
		{"\t/merge", nil},
		{"```\n/merge\n```", nil},
		{"~~~sh\n/merge", nil},
		{"````\n```\n/merge\n````", nil},
		{"`span\n/merge\nend`", nil},
		{"`/merge`", nil},
		{"<!--\n/merge\n-->", nil},
		{"<!-- a --> <!-- b\n/merge\n-->", nil},
		{"<pre>\n/merge\n</pre>", nil},
		{"<blockquote>\n/merge\n</blockquote>", nil},
		{"On Monday, Bob wrote:\n/merge", nil},
		{"-----Original Message-----\n/merge", nil},
		{"please /merge", nil},
		{"/merge please", nil},
		{"/merge 01", nil},
		{"/mergе", nil}, // a Cyrillic е
		{"/merge\u200b", nil},
		{"bors r-", nil},
		{"/greenward run now", nil},
	} {
		if diff := cmp.Diff(Commands(tc.body), tc.want); diff != "" {
			t.Errorf("%q: %s", tc.body, diff)
		}
	}
}

func TestQuotedOrFencedCommandsAreNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{
			"/merge", "bors r+", "", "text", "> q", "<!--", "-->", "<pre>", "</pre>", "`", "a `b", "~~~", "    x", "/greenward run",
		})).Draw(t, "lines"), "\n")
		if got := Commands("> " + strings.ReplaceAll(body, "\n", "\n> ")); len(got) != 0 {
			t.Fatalf("quoted %q: %v", body, got)
		}
		if got := Commands("```\n" + body + "\n```"); len(got) != 0 {
			t.Fatalf("fenced %q: %v", body, got)
		}
	})
}

func FuzzCommands(f *testing.F) {
	f.Add("> a\n```\n<!-- `\n/merge\n")
	f.Fuzz(func(t *testing.T, body string) {
		for _, c := range Commands(body) {
			if c.Verb != VerbMerge && c.Verb != VerbRun || strings.Trim(c.SHA, "0123456789abcdef") != "" {
				t.Fatalf("%q: %+v", body, c)
			}
		}
		if g := Goal(body, body); strings.ContainsAny(g, "\x00\u200b\u202e\r") || len(g) > maxText+20 {
			t.Fatalf("%q: %q", body, g)
		}
	})
}
