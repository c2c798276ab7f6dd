package queues

import "slices"

// result sums up at the end of the trace. What waits still has waited till then.
func (w *trace) result() TraceResult {
	out := w.out
	out.Waiting, out.Hours = len(w.waiting), w.now/60
	var waits, calm []float64
	for _, c := range w.changes {
		end := c.decided
		if c.state == "" {
			end = w.now
		}
		waits = append(waits, max(end-c.at, 0))
		if c.lane != "agent/a" {
			calm = append(calm, max(end-c.at, 0))
		}
	}
	slices.Sort(waits)
	out.MeanWait, out.CalmWait = mean(waits), mean(calm)
	out.Percentile95 = waits[len(waits)*95/100]
	return out
}

func mean(list []float64) float64 {
	total := 0.0
	for _, v := range list {
		total += v
	}
	return total / float64(max(len(list), 1))
}
