package bot

import (
	"strings"
	"testing"
)

// What a run has cost stands in its comment in money where the prices are known, else
// in tokens; money that is not known is never said to be none.
func TestWhatARunHasCostIsTold(t *testing.T) {
	for want, p := range map[string]Progress{
		"It has cost 1.25 USD (1000 tokens).": {Tokens: 1000, USD: new(1.25)},
		"It has cost 0.00 USD (3 tokens).":    {Tokens: 3, USD: new(0.0004)},
		"1000 tokens were used.":              {Tokens: 1000},
		"Run `r`: **running**.":               {},
	} {
		p.State = "running"
		got := progressText(&issue{}, []string{"r"}, []Progress{p})
		if !strings.HasSuffix(got, want) {
			t.Errorf("%q does not end in %q", got, want)
		}
	}
}
