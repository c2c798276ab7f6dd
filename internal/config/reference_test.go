package config_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/config"
)

// reference is the two examples of the policy's documentation.
func reference(t *testing.T) (defaults, rest string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d examples, want the defaults and the rest", len(blocks))
	}
	return blocks[0][1], blocks[1][1]
}

func TestDocumentedDefaultsAreTheDefaults(t *testing.T) {
	t.Parallel()
	defaults, rest := reference(t)
	c, err := config.Parse([]byte(defaults))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Default(), c); diff != "" {
		t.Errorf("the documented defaults (+) are others (-):\n%s", diff)
	}
	if _, err := config.Parse([]byte(rest)); err != nil {
		t.Errorf("the documented example: %v", err)
	}
}

// Every key that the reader knows is in one of the examples, and the other way round:
// they parse, so they hold no key that is unknown.
func TestEveryKeyIsDocumented(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("sections.go")
	if err != nil {
		t.Fatal(err)
	}
	defaults, rest := reference(t)
	known := regexp.MustCompile(`"([a-z_]+)":\s+(?:scalar|list|func)\(`).FindAllStringSubmatch(string(source), -1)
	if len(known) < 60 {
		t.Fatalf("only %d keys were found in the reader", len(known))
	}
	written := regexp.MustCompile(`[a-z_]+:`).FindAllString(defaults+rest, -1)
	for _, key := range known {
		if !slices.Contains(written, key[1]+":") {
			t.Errorf("%s is not documented", strings.TrimSpace(key[1]))
		}
	}
}
