package prompts

import (
	"strings"
	"testing"
)

func TestEveryPromptFillsIn(t *testing.T) {
	entries, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	full := Facts{
		Agent: "worker-1", Run: "run", Planner: "run", Checks: []Check{{"test", "go test ./...", true}, {"lint", "lint", false}}, Workers: 8,
		Task: "run/a", Paths: []string{"a.go", "b.go"}, With: "x@0123456789ab", Reason: "gate", Detail: "too large", Round: 1, Rounds: 3,
	}
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".md")
		for _, facts := range []Facts{{}, full} {
			p, err := Render(name, facts)
			if err != nil {
				t.Error(err)
				continue
			}
			if len(p.Text) < 50 || len(p.Text) > 5000 || len(p.Hash) != 12 || strings.Contains(p.Text, "<no value>") || strings.Contains(p.Text, "{{") {
				t.Errorf("%s: %d bytes, hash %q:\n%s", name, len(p.Text), p.Hash, p.Text)
			}
		}
	}
	if _, err := Render("nobody", Facts{}); err == nil {
		t.Error("a prompt that is not there is rendered")
	}
}

func TestHashIsOfTheWordsAlone(t *testing.T) {
	one, err := Render("worker", Facts{Agent: "a"})
	if err != nil {
		t.Fatal(err)
	}
	two, err := Render("worker", Facts{Agent: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if one.Hash != two.Hash || one.Text == two.Text {
		t.Errorf("hashes %s and %s", one.Hash, two.Hash)
	}
}
