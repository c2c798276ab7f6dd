package command

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// show is a command in one line.
func (c Command) show() string {
	s := string(c.Verb)
	if c.SHA != "" {
		s += " " + c.SHA
	}
	if c.Level != 0 {
		s += fmt.Sprint(" ", c.Level)
	}
	if len(c.Users) > 0 {
		s += " " + strings.Join(c.Users, ",")
	}
	if c.Args != (Args{}) {
		s += fmt.Sprintf(" %+v", c.Args)
	}
	if c.Text != "" && c.Verb != Unserved {
		s += ": " + c.Text
	}
	return s
}

func shown(list []Command) string {
	var parts []string
	for _, c := range list {
		parts = append(parts, c.show())
	}
	return strings.Join(parts, " | ")
}

// The one table of spellings: each line of the file is what somebody types and
// what it means.
func TestSpellings(t *testing.T) {
	data, err := os.ReadFile("testdata/spellings.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Verb]bool{}
	for line := range strings.Lines(string(data)) {
		typed, want, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " => ")
		if !ok {
			continue
		}
		got := Parse(typed, "queue-bot")
		if diff := cmp.Diff(strings.TrimSpace(want), shown(got)); diff != "" {
			t.Errorf("%q: %s", typed, diff)
		}
		for _, c := range got {
			seen[c.Verb] = true
		}
	}
	for _, d := range dialects(nil) {
		for _, s := range d.words {
			if !seen[s.verb] {
				t.Errorf("no line of the table shows %s", s.verb)
			}
		}
	}
}

func TestQ62CommandsAreSpokenNotQuoted(t *testing.T) {
	for _, tc := range []struct{ body, want string }{
		{"/merge", "merge"},
		{"LGTM\n\nbors r+\n", "merge"},
		{"  @bors r+  ", "merge"},
		{"`code` and `more`\n/merge", "merge"},
		{"> quoted\n\n/merge", "merge"},
		{"<!-- note -->\n/merge", "merge"},
		{"```\ncode\n```\n/merge", "merge"},
		{"a `<pre>` and ``a `<!--` b``\n/merge", "merge"},
		{"a `<pre\n/merge", ""},
		{"<pre> `</pre>`\n/merge", ""},
		{"thanks!\r\n\r\n/merge  \r\n", "merge"},
		{"> bors r+", ""},
		{"> said\nbors r+", ""}, // a lazy line of the quotation
		{"    /merge", ""},
		{"\t/merge", ""},
		{"```\n/merge\n```", ""},
		{"~~~sh\n/merge", ""},
		{"````\n```\n/merge\n````", ""},
		{"`span\n/merge\nend`", ""},
		{"<!--\n/merge\n-->", ""},
		{"<!-- a --> <!-- b\n/merge\n-->", ""},
		{"<pre>\n/merge\n</pre>", ""},
		{"<blockquote>\n/merge\n</blockquote>", ""},
		{"On Monday, Bob wrote:\n/merge", ""},
		{"-----Original Message-----\n/merge", ""},
		{"please /merge", ""},
		{"# bors r+", ""},
		{"- bors r+", ""},
		{"[bors r+](http://x)", ""},
		{"/mergе", ""}, // a Cyrillic е: no command, whatever it looks like
		{"/merge\u200b", ""},
		{"bοrs r+", ""}, // a Greek ο
		{"bors is a great tool", ""},
		{"bors merged this yesterday, did it not?", ""},
		{"@bors thanks a lot for all of that", ""},
		{"rechecking", ""},
		{"/assign alice", ""},
	} {
		got := Parse(tc.body)
		if len(got) > 0 && got[0].Verb == Hint && tc.want == "" {
			continue // a hint does nothing
		}
		if diff := cmp.Diff(tc.want, shown(got)); diff != "" {
			t.Errorf("%q: %s", tc.body, diff)
		}
	}
}

// Every command before every role: who may ask for what stands in the file, whole.
func TestQ57EveryCommandForEveryRole(t *testing.T) {
	verbs := []Verb{
		Merge, Review, Approve, Unmerge, Try, Untry, Retry, Priority, Delegate, Undelegate, Hold, Unhold, Freeze, Thaw,
		Run, Stop, Pause, Resume, Status, Help, Ping, Hint, Unserved,
	}
	people := []struct {
		name string
		who  Who
	}{
		{"stranger", Who{}},
		{"reader", Who{Role: Reader}},
		{"triager", Who{Role: Triager}},
		{"writer", Who{Role: Writer}},
		{"maintainer", Who{Role: Maintainer}},
		{"admin", Who{Role: Admin}},
		{"author", Who{Role: Reader, Author: true}},
		{"delegate", Who{Role: Reader, Delegate: true}},
	}
	var out strings.Builder
	for _, v := range verbs {
		fmt.Fprintf(&out, "%-10s", v)
		for _, p := range people {
			if v.MayAsk(p.who) {
				out.WriteString(" " + p.name)
			}
		}
		out.WriteString("\n")
	}
	want, err := os.ReadFile("testdata/roles.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("who may ask (-want +got):\n%s", diff)
	}
	if Verb("").MayAsk(Who{Role: Admin}) {
		t.Error("a verb that nobody knows is allowed")
	}
}

func TestRoleOf(t *testing.T) {
	for _, tc := range []struct {
		permission, name string
		want             Role
	}{
		{"admin", "admin", Admin},
		{"write", "maintain", Maintainer},
		{"write", "write", Writer},
		{"read", "triage", Triager},
		{"read", "read", Reader},
		{"none", "none", Stranger},
		{"", "", Stranger},
		{"write", "custom-release-role", Writer},
		{"owner", "owner", Stranger}, // not known: no right
	} {
		if got := RoleOf(tc.permission, tc.name); got != tc.want {
			t.Errorf("%q %q: %v, want %v", tc.permission, tc.name, got, tc.want)
		}
	}
}

// H19: whatever we print about commands is no command to us.
func TestH19HelpIsNoCommand(t *testing.T) {
	if got := Parse(HelpText("queue-bot"), "queue-bot"); len(got) != 0 {
		t.Fatalf("the help is read as %v", got)
	}
	if n := strings.Count(HelpText(), "\n"); n < 20 {
		t.Fatalf("help of %d lines", n)
	}
}

func TestQuotedOrFencedCommandsAreNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{
			"/merge", "bors r+", "", "text", "> q", "<!--", "-->", "<pre>", "</pre>", "`", "a `b", "~~~", "    x", "/greenward run", "`bors r+`",
		})).Draw(t, "lines"), "\n")
		if got := Parse("> " + strings.ReplaceAll(body, "\n", "\n> ")); len(got) != 0 {
			t.Fatalf("quoted %q: %v", body, got)
		}
		if got := Parse("```\n" + body + "\n```"); len(got) != 0 {
			t.Fatalf("fenced %q: %v", body, got)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("> a\n```\n<!-- `\n/merge\n")
	f.Add("bors r+ p=5 d=a,b\n/greenward run workers=3 budget=$4 model=x")
	f.Fuzz(func(t *testing.T, body string) {
		list := Parse(body, "queue-bot")
		for _, c := range list {
			if strings.Trim(c.SHA, "0123456789abcdef") != "" || c.Level < -1000 || c.Level > 1000 || len(c.Users) > maxPeople || len(c.Text) > 500 ||
				strings.ContainsAny(c.Text, "\n\r\x00") || c.Args.Workers < 0 || c.Args.Tokens < 0 {
				t.Fatalf("%q: %+v", body, c)
			}
			if c.Verb == Hint && len(Parse(c.Text)) != 0 {
				t.Fatalf("%q: the hint %q is a command", body, c.Text)
			}
		}
		if len(list) > maxCommands {
			t.Fatalf("%d commands", len(list))
		}
	})
}
