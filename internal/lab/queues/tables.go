package queues

import (
	"cmp"
	"fmt"
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
	OfNoFlake  float64     `json:"throughput_of_no_flake"` // of the same setting without flakes
	InnocentOf float64     `json:"innocent_share"`         // ejected good changes of all good ones
}

// PlanTable simulates queues of so many changes at the settings that the promises
// speak of. say is told how far it is.
func PlanTable(changes, seeds int, say func(string)) ([]PlanRow, error) {
	var rows []PlanRow
	noFlake := map[[2]float64]float64{}
	for _, s := range []struct {
		slots      []int
		bad, flake []float64
	}{
		{[]int{1}, []float64{0.01, 0.02, 0.05, 0.10}, []float64{0}},
		{[]int{2, 4, 8}, []float64{0.05, 0.10, 0.25}, []float64{0}},
		{[]int{1, 2, 8}, []float64{0, 0.02, 0.05}, []float64{0, 0.10}},
	} {
		for _, slots := range s.slots {
			for _, bad := range s.bad {
				for _, flake := range s.flake {
					row, err := planRow(QueueSetting{Changes: changes, Bad: bad, Flake: flake, Slots: slots, Known: true}, seeds)
					if err != nil {
						return nil, err
					}
					at := [2]float64{float64(slots), bad}
					if flake == 0 {
						noFlake[at] = row.PerRound
					}
					row.OfNoFlake = row.PerRound / cmp.Or(noFlake[at], row.PerRound)
					rows = append(rows, row)
					say(fmt.Sprintf("%d slots, %g %% bad, %g %% flakes: %.3f runs a change", slots, 100*bad, 100*flake, row.PerChange))
				}
			}
		}
	}
	return rows, nil
}

func planRow(q QueueSetting, seeds int) (PlanRow, error) {
	row := PlanRow{QueueSetting: q, Seeds: seeds}
	for seed := range seeds {
		r, err := PlanQueue(q, uint64(seed))
		if err != nil {
			return row, err
		}
		row.Result.add(r)
	}
	n, landed := float64(seeds*q.Changes), float64(row.Result.Landed)
	row.PerChange, row.PerLanded = float64(row.Result.Runs)/n, float64(row.Result.Runs)/landed
	if h := Entropy(q.Bad); h > 0 {
		row.OfEntropy = row.PerLanded / h
	}
	row.PerRound, row.Ordered = landed/float64(row.Result.Rounds), ordered(q.Slots, q.Bad)
	row.InnocentOf = float64(row.Result.Innocent) / (landed - float64(row.Result.Broken) + float64(row.Result.Innocent))
	return row, nil
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
