package queues

import (
	"fmt"
	"math"
)

// PlanRow is what planned builds cost and land at one setting, over some seeds.
type PlanRow struct {
	QueueSetting
	Seeds      int         `json:"seeds"`
	Result     QueueResult `json:"result"` // summed up
	PerChange  float64     `json:"runs_per_change"`
	PerLanded  float64     `json:"runs_per_landed"`
	OfEntropy  float64     `json:"runs_per_landed_of_entropy"` // 1.15 is the bound that is aimed at
	PerRound   float64     `json:"landed_per_round"`
	Ordered    float64     `json:"ordered_speculation_per_round"`
	OfNoFlake  float64     `json:"throughput_of_no_flake"` // of the same queues without flakes
	OfNoFlake2 Interval    `json:"throughput_of_no_flake_95"`
	InnocentOf float64     `json:"innocent_share"` // ejected good changes of all good ones
	Innocent2  Interval    `json:"innocent_share_95"`

	rates []float64 // landed a round, by seed
}

// Interval holds a figure with a probability of 95 %.
type Interval [2]float64

// Seeds are the simulated queues of a setting.
type Seeds struct {
	First uint64
	Count int
}

// PlanTable simulates queues of so many changes at the settings that the promises
// speak of. say is told how far it is.
func PlanTable(changes int, seeds Seeds, say func(string)) ([]PlanRow, error) {
	var rows []PlanRow
	for _, s := range []struct {
		slots []int
		bad   []float64
		flake float64
	}{
		{[]int{1, 2, 4, 8}, []float64{0.01, 0.02, 0.05, 0.10}, 0},
		{[]int{2, 4, 8}, []float64{0.25}, 0},
		{[]int{1, 2, 8}, []float64{0, 0.02, 0.05}, 0.10},
	} {
		for _, slots := range s.slots {
			for _, bad := range s.bad {
				row, err := planRow(QueueSetting{Changes: changes, Bad: bad, Flake: s.flake, Slots: slots, Known: true}, seeds)
				if err != nil {
					return nil, err
				}
				rows = append(rows, row)
				say(fmt.Sprintf("%d slots, %g %% bad, %g %% flakes: %.3f runs a change", slots, 100*bad, 100*s.flake, row.PerChange))
			}
		}
	}
	return rows, nil
}

// planRow measures a setting and, where its check flakes, the same queues without.
func planRow(q QueueSetting, seeds Seeds) (PlanRow, error) {
	row := PlanRow{QueueSetting: q, Seeds: seeds.Count, OfNoFlake: 1, OfNoFlake2: Interval{1, 1}}
	for i := range seeds.Count {
		r, err := PlanQueue(q, seeds.First+uint64(i))
		if err != nil {
			return row, err
		}
		row.Result.add(r)
		row.rates = append(row.rates, float64(r.Landed)/float64(r.Rounds))
	}
	n, landed := float64(seeds.Count*q.Changes), float64(row.Result.Landed)
	row.PerChange, row.PerLanded = float64(row.Result.Runs)/n, float64(row.Result.Runs)/landed
	if h := Entropy(q.Bad); h > 0 {
		row.OfEntropy = row.PerLanded / h
	}
	row.PerRound, row.Ordered = landed/float64(row.Result.Rounds), ordered(q.Slots, q.Bad)
	good := row.Result.Landed - row.Result.Broken + row.Result.Innocent
	row.InnocentOf, row.Innocent2 = float64(row.Result.Innocent)/float64(good), wilson(row.Result.Innocent, good)
	if q.Flake > 0 {
		q.Flake = 0
		clean, err := planRow(q, seeds)
		if err != nil {
			return row, err
		}
		row.OfNoFlake, row.OfNoFlake2 = ratio(row, clean)
	}
	return row, nil
}

// z is the normal quantile of a two-sided interval of 95 %.
const z = 1.96

// wilson is Wilson's interval of a share.
func wilson(k, n int) Interval {
	if n == 0 {
		return Interval{0, 1}
	}
	p, m := float64(k)/float64(n), float64(n)
	middle, half := p+z*z/(2*m), z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return Interval{(middle - half) / (1 + z*z/m), (middle + half) / (1 + z*z/m)}
}

// ratio compares what two settings land a round, queue by queue: both have the
// same bad changes under the same seed.
func ratio(a, b PlanRow) (float64, Interval) {
	of := a.PerRound / b.PerRound
	if len(a.rates) < 2 {
		return of, Interval{0, math.Inf(1)}
	}
	mean, squares := 0.0, 0.0
	for i := range a.rates {
		mean += math.Log(a.rates[i]/b.rates[i]) / float64(len(a.rates))
	}
	for i := range a.rates {
		d := math.Log(a.rates[i]/b.rates[i]) - mean
		squares += d * d
	}
	half := z * math.Sqrt(squares/float64(len(a.rates)-1)/float64(len(a.rates)))
	return of, Interval{of * math.Exp(-half), of * math.Exp(half)}
}

func (r *QueueResult) add(o QueueResult) {
	r.Runs += o.Runs
	r.Rounds += o.Rounds
	r.Landed += o.Landed
	r.Ejected += o.Ejected
	r.Innocent += o.Innocent
	r.Broken += o.Broken
	r.Repeats += o.Repeats
}

// ordered is what ordered speculation lands a round: it decides the changes up to
// the first bad one among as many as it has slots.
func ordered(slots int, bad float64) float64 {
	landed, good := 0.0, 1.0
	for range slots {
		good *= 1 - bad
		landed += good
	}
	return landed
}
