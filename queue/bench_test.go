package queue

import (
	"fmt"
	"testing"

	"greenward/internal/gittest"
)

// BenchmarkLand lands disjoint one-file changes in batches; one operation is
// one landing.
func BenchmarkLand(b *testing.B) {
	w := newWorld(b, nil)
	base := w.git("rev-parse", "main")
	for i := range b.N {
		w.branch(fmt.Sprintf("c%05d", i), base, "change", map[string]string{fmt.Sprintf("d%d/f%d.txt", i%20, i): "x\n"})
	}
	w.lander.Now = gittest.Clock()
	b.ResetTimer()
	if got := w.land(); len(got) != b.N {
		b.Fatalf("%d decided", len(got))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "landings/s")
}
