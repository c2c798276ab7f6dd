package gate

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"greenward/internal/config"
)

// Every rule that the gate has can be skipped by the policy, and no other.
func TestRulesThatThePolicySkipsAreTheGates(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]bool{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`\.find\("([a-z_]+)"`).FindAllSubmatch(source, -1) {
			rules[string(m[1])] = true
		}
	}
	if len(rules) < 16 {
		t.Fatalf("only %d rules were found", len(rules))
	}
	policy := func(rule string) error {
		_, err := config.Parse(fmt.Appendf(nil, "queue: {gate: {skip: [{rule: %s, paths: [x]}]}}", rule))
		return err
	}
	for rule := range rules {
		if err := policy(rule); err != nil {
			t.Errorf("%s: %v", rule, err)
		}
	}
	if err := policy("marker"); err == nil || !strings.Contains(err.Error(), "markers") {
		t.Errorf("a rule that is none: %v", err)
	}
}
