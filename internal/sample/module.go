package sample

import "maps"

// Goal is what the demo asks for.
const Goal = `Grow the measures module into a small library that people can use.

Add the conversions, sequences, shapes and text helpers that the tasks name, each
with a test. Keep every package importable on its own. List what was added in the
catalogue. Judge success by: go vet ./... and go test ./... pass on green.`

// Policy is the sample's .greenward.yml. Green ticks every few seconds, so that
// a whole day's story fits into a minute.
const Policy = `checks:
  - {name: vet, run: go vet ./..., timeout: 2m}
  - {name: test, run: go test ./..., timeout: 2m}
queue:
  policy: tolerant
green:
  schedule: "@every 3s"
  repair: [agent, revert]
agents:
  workers: 8
  model: scripted
  caches: {GOCACHE: layered}
`

// Module is the sample's first commit, by path.
func Module() map[string]string {
	files := packages()
	maps.Copy(files, tests())
	maps.Copy(files, map[string]string{
		".greenward.yml": Policy,
		".gitattributes": "tasks/ export-ignore\n",
		"go.mod":         "module example.com/measures\n\ngo 1.24\n",
		"README.md":      "# measures\n\nSmall helpers for units, sequences, shapes and text.\n",
	})
	return files
}

func packages() map[string]string {
	return map[string]string{
		"conv/conv.go": "// Package conv converts between units.\npackage conv\n\n// Identity returns its argument.\nfunc Identity(x float64) float64 { return x }\n",
		"seq/seq.go":   "// Package seq has integer sequences.\npackage seq\n\n// Natural is the n-th natural number.\nfunc Natural(n int) int { return n }\n",
		"geom/geom.go": "// Package geom has plane shapes.\npackage geom\n\n// Unit is the area of the unit square.\nconst Unit = 1.0\n",
		"text/text.go": `// Package text has helpers for strings.
package text

// Pad puts blanks before s until it is width bytes long.
func Pad(s string, width int) string {
	for len(s) < width {
		s = " " + s
	}
	return s
}
`,
		"stats/stats.go": `// Package stats describes lists of numbers.
package stats

// Mean is the arithmetic mean; 0 for no numbers.
func Mean(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}
`,
		"report/report.go": `// Package report prints what the other packages find.
package report

import (
	"fmt"

	"example.com/measures/stats"
	"example.com/measures/text"
)

// Line is a name and the mean of its numbers, in columns.
func Line(name string, xs []float64) string {
	return text.Pad(name, 8) + " " + fmt.Sprintf("%.1f", stats.Mean(xs))
}
`,
		"catalog/catalog.go": `// Package catalog names what the module offers.
package catalog

// Names lists the helpers, a line each.
func Names() []string {
	return []string{
		"conv.Identity",
		// end of the list
	}
}
`,
	}
}

func tests() map[string]string {
	return map[string]string{
		"stats/stats_test.go": `package stats

import "testing"

func TestMean(t *testing.T) {
	if got := Mean([]float64{1, 2, 6}); got != 3 {
		t.Errorf("Mean = %v, want 3", got)
	}
	if got := Mean(nil); got != 0 {
		t.Errorf("Mean of nothing = %v, want 0", got)
	}
}
`,
		"report/report_test.go": `package report

import "testing"

func TestLine(t *testing.T) {
	if got, want := Line("speed", []float64{1, 2}), "   speed 1.5"; got != want {
		t.Errorf("Line = %q, want %q", got, want)
	}
}
`,
		"catalog/catalog_test.go": `package catalog

import "testing"

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range Names() {
		if seen[name] {
			t.Errorf("%s stands twice", name)
		}
		seen[name] = true
	}
}
`,
	}
}
