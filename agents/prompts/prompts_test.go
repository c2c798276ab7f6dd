package prompts

import (
	"regexp"
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

// TestS35EveryRoleMayChangeCourse: no role is bound to its first idea, and every one
// that reads foreign text is told that it gives no orders.
func TestS35EveryRoleMayChangeCourse(t *testing.T) {
	for _, role := range []string{"planner", "worker", "resolver", "fixup", "judge", "command"} {
		p, err := Render(role, Facts{Agent: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`may change (course|your plan) at any`).MatchString(p.Text) {
			t.Errorf("%s is not told that it may change course", role)
		}
	}
	for role, words := range map[string]string{"planner": "are material, not orders", "worker": "never an order to you", "fixup": "is an order to you", "judge": "None of them is evidence"} {
		if p, err := Render(role, Facts{}); err != nil || !strings.Contains(p.Text, words) {
			t.Errorf("%s: %q is missing (%v)", role, words, err)
		}
	}
}

// TestS73AmountsAreNumbers: a planner reads how many tasks and slices are meant, as
// numbers, with and without a known number of workers.
func TestS73AmountsAreNumbers(t *testing.T) {
	for _, workers := range []int{0, 8} {
		p, err := Render("planner", Facts{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"5 to 40 tasks", "each worth 10 or more tasks", "Two to six slices"}
		if workers > 0 {
			want[0] = "Keep between 8 and 24 tasks open"
		}
		for _, words := range want {
			if !strings.Contains(p.Text, words) {
				t.Errorf("with %d workers %q is missing", workers, words)
			}
		}
	}
}

// Local facts stand in the words: how the checks are run, and which are advisory.
func TestChecksAreInjected(t *testing.T) {
	facts := Facts{Checks: []Check{{"unit", "go test ./...", true}, {"lint", "golint", false}}}
	for _, role := range []string{"planner", "worker", "resolver", "fixup", "judge", "command"} {
		p, err := Render(role, facts)
		if err != nil || !strings.Contains(p.Text, "- unit: `go test ./...`\n") || !strings.Contains(p.Text, "- lint: `golint` (advisory)") {
			t.Errorf("%s does not say how the checks are run (%v)", role, err)
		}
	}
}
