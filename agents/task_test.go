package agents

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseTask(t *testing.T) {
	got, err := ParseTask("run/slice/flex-k3x9", []byte("---\r\ntitle: Flex basis\npriority: 2\npaths: [css/**]\nafter: [run/a-1]\nacceptance: [go test ./css]\nsize: M\nowner: {name: ana}\n---\n\nIntent.\n\n--- not the end\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Task{
		ID: "run/slice/flex-k3x9", Title: "Flex basis", Priority: 2, Paths: []string{"css/**"}, After: []string{"run/a-1"},
		Acceptance: []string{"go test ./css"}, Size: "M", Extra: []Extra{{"owner", "owner: {name: ana}\n"}}, Body: "Intent.\n\n--- not the end",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
}

// Who writes a task by hand has one command, and writes no list.
func TestParseTaskTakesOneTextForAList(t *testing.T) {
	got, err := ParseTask("run/a", []byte("---\ntitle: a\npaths: css/**\nacceptance: go test ./css\n---\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Task{ID: "run/a", Title: "a", Priority: DefaultPriority, Paths: []string{"css/**"}, Acceptance: []string{"go test ./css"}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
	if _, err := ParseTask("run/a", []byte("---\ntitle: a\nacceptance:\n---\n")); err == nil {
		t.Error("nothing is a list")
	}
}

func TestParseTaskRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty":          "",
		"no front":       "# Do it\n",
		"no end":         "---\ntitle: x\n",
		"no title":       "---\nsize: S\n---\n",
		"null title":     "---\ntitle:\n---\n",
		"list title":     "---\ntitle: [a]\n---\n",
		"two lines":      "---\ntitle: \"a\\nb\"\n---\n",
		"priority":       "---\ntitle: a\npriority: 11\n---\n",
		"priority text":  "---\ntitle: a\npriority: high\n---\n",
		"twice":          "---\ntitle: a\ntitle: b\n---\n",
		"alias":          "---\ntitle: &x a\nowner: *x\n---\n",
		"after a string": "---\ntitle: a\nafter: b\n---\n",
		"after climbs":   "---\ntitle: a\nafter: [../b]\n---\n",
		"not yaml":       "---\ntitle: [\n---\n",
		"scalar":         "---\nhello\n---\n",
		"NUL":            "---\ntitle: a\n---\n\x00",
		"not UTF-8":      "---\ntitle: a\n---\n\xff",
		"too long":       "---\ntitle: a\n---\n" + strings.Repeat("x", maxTaskFile),
	} {
		_, err := ParseTask("run/a", []byte(text))
		malformed, ok := errors.AsType[*MalformedError](err)
		if !ok {
			t.Errorf("%s: %v is not a MalformedError", name, err)
			continue
		}
		if malformed.Path != "tasks/run/a.md" || malformed.Problem == "" || malformed.Cure == "" {
			t.Errorf("%s: incomplete report %+v", name, malformed)
		}
	}
}

func TestCheckID(t *testing.T) {
	for _, good := range []string{"run", "issue-42/css/flex-basis-k3x9", "a/b_c.d"} {
		if err := CheckID(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "a//b", "/a", "a/", "_a", "a/_", "a/..", "a..b", "A/b", "a b", "ü", "-a", ".a", "a.", "a.lock", "a/GOAL", "a\nb", strings.Repeat("a", 151)} {
		if CheckID(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestSlug(t *testing.T) {
	got, err := Slug("Füge  `flex` -- basis hinzu!", bytes.NewReader([]byte{0, 1, 31, 32}))
	if err != nil || got != "f-ge-flex-basis-hinzu-ab9a" {
		t.Errorf("got %q, %v", got, err)
	}
	rapid.Check(t, func(t *rapid.T) {
		slug, err := Slug(rapid.String().Draw(t, "title"), bytes.NewReader(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "rand")))
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckID(slug); err != nil || strings.Contains(slug, "/") {
			t.Fatalf("%q: %v", slug, err)
		}
	})
	if _, err := Slug("x", strings.NewReader("ab")); err == nil {
		t.Error("a short source of randomness is taken")
	}
}

func anyTask() *rapid.Generator[Task] {
	line := rapid.StringMatching(`[a-zA-Z0-9:#'"\[\]{}&*!|>%@~-][ -~äöü✓]{0,20}[a-z]`)
	lines := rapid.SliceOfN(line, 1, 4)
	return rapid.Custom(func(t *rapid.T) Task {
		task := Task{ID: "run/a", Title: line.Draw(t, "title"), Priority: rapid.IntRange(0, 9).Draw(t, "priority"), Body: rapid.StringMatching(`([ -~]{0,20}\n){0,4}[!-~]?`).Draw(t, "body")}
		task.Body = strings.Trim(task.Body, "\n")
		if rapid.Bool().Draw(t, "lists") {
			task.Paths, task.Acceptance, task.After = lines.Draw(t, "paths"), lines.Draw(t, "acceptance"), []string{"run/b-2"}
			task.Size = line.Draw(t, "size")
		}
		return task
	})
}

func TestTaskRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyTask().Draw(t, "task")
		text, err := FormatTask(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseTask(want.ID, text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Fatalf("%s in\n%s", diff, text)
		}
	})
}

func FuzzParseTask(f *testing.F) {
	f.Add([]byte("---\ntitle: a\n---\nbody\n"))
	f.Add([]byte("---\ntitle: a\nx: {y: [1, \"2\"]} # why\npriority: 0\nafter: [b]\n---\n"))
	f.Add([]byte("---\n? [a]\n: b\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := ParseTask("run/a", data)
		if err != nil {
			if _, ok := errors.AsType[*MalformedError](err); !ok {
				t.Fatalf("%v is not a MalformedError", err)
			}
			return
		}
		text, err := FormatTask(first)
		if err != nil {
			t.Fatalf("%v for %+v", err, first)
		}
		second, err := ParseTask("run/a", text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		again, err := FormatTask(second)
		if err != nil || !bytes.Equal(text, again) {
			t.Fatalf("not canonical (%v):\n%s\n%s", err, text, again)
		}
	})
}
