package designs

import "time"

// spanOf is how long a Span is.
const spanOf = 10 * time.Minute

// Span is ten minutes of a run.
type Span struct {
	Minute    int     `json:"minute"` // at its end
	Landed    int     `json:"landed"`
	Conflicts int     `json:"conflicts"`
	Broke     int     `json:"broke"`       // landings that brought a bug
	Live      int     `json:"live"`        // bugs on main at its end
	Red       float64 `json:"red_minutes"` // of main
	GreenRed  float64 `json:"green_red_minutes"`
}

// Errors is the share of the span's landings that broke something.
func (s Span) Errors() float64 { return float64(s.Broke) / float64(max(1, s.Landed)) }

// record keeps account of every ten minutes.
func (w *world) record() {
	total := func(sum float64, from time.Duration) float64 { // minutes so far
		if from >= 0 {
			sum += (w.clock.now - from).Hours()
		}
		return 60 * sum
	}
	w.clock.start(w.seed, func(a *agent) error {
		var landed, conflicts, broke int
		var red, greenRed float64
		for {
			if err := a.busy(spanOf); err != nil {
				return err
			}
			live, err := w.broken(w.tip, nil)
			if err != nil {
				return err
			}
			s := Span{Minute: int(w.clock.now.Minutes()), Landed: w.Landed - landed, Conflicts: w.Conflicts - conflicts, Broke: w.broke - broke, Live: len(live)}
			s.Red, s.GreenRed = total(w.Red, w.redFrom)-red, total(w.GreenRed, w.greenRedFrom)-greenRed
			w.Series = append(w.Series, s)
			landed, conflicts, broke = w.Landed, w.Conflicts, w.broke
			red, greenRed = red+s.Red, greenRed+s.GreenRed
		}
	})
}
