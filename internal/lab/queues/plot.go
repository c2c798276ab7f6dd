package queues

import (
	"fmt"
	"strings"
)

// Plot draws the samples of several traces as an SVG picture: landed changes and
// red minutes over the hours.
func Plot(traces []TraceResult) string {
	const width, height, left, gap = 860, 260, 60, 50
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n", width+left+120, 2*(height+gap)+20)
	panels := []struct {
		title string
		value func(TraceSample) float64
	}{
		{"changes landed", func(s TraceSample) float64 { return float64(s.Landed) }},
		{"minutes in which main was red", func(s TraceSample) float64 { return s.Red }},
	}
	colours := []string{"#1f77b4", "#d62728", "#2ca02c"}
	for p, panel := range panels {
		top := float64(gap/2 + p*(height+gap))
		most, hours := 1.0, 1.0
		for _, t := range traces {
			for _, s := range t.Samples {
				most, hours = max(most, panel.value(s)), max(hours, s.Hour)
			}
		}
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%g\">%s (most: %.0f; %.0f hours)</text>\n", left, top-6, panel.title, most, hours)
		fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%g\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#999\"/>\n", left, top, width, height)
		for i, t := range traces {
			var points []string
			for _, s := range t.Samples {
				points = append(points, fmt.Sprintf("%.1f,%.1f", left+s.Hour/hours*width, top+height-panel.value(s)/most*height))
			}
			colour := colours[i%len(colours)]
			fmt.Fprintf(&b, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"%s\"/>\n", colour, strings.Join(points, " "))
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%g\" fill=\"%s\">%s</text>\n", left+width+8, top+20+float64(18*i), colour, t.Policy)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}
