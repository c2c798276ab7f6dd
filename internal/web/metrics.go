package web

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
)

// Sample is one figure in Prometheus' terms.
type Sample struct {
	Name   string // greenward_…; a counter ends in _total
	Help   string
	Labels map[string]string
	Value  float64
}

// ready asks every probe; the answer names the parts and why. What is only degraded
// (its error says so) is told, and leaves the server ready: taking it away would not help.
func (s *site) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer cancel()
	status := http.StatusOK
	var text strings.Builder
	say := func(part string, err error) {
		if err == nil {
			fmt.Fprintf(&text, "%s: ok\n", part)
			return
		}
		if d, ok := errors.AsType[degraded](err); ok && d.Degraded() {
			part += ": degraded"
		} else {
			status = http.StatusServiceUnavailable
		}
		fmt.Fprintf(&text, "%s: %s\n", part, strings.Join(strings.Fields(err.Error()), " "))
	}
	_, err := s.overview(ctx)
	say("hub", err)
	for _, part := range slices.Sorted(maps.Keys(s.cfg.Probes)) {
		say(part, s.cfg.Probes[part].Ready(ctx))
	}
	s.text(w, r, status, text.String())
}

// degraded is an error of a part that works on.
type degraded interface {
	error
	Degraded() bool
}

func (s *site) metrics(w http.ResponseWriter, r *http.Request) {
	samples := []Sample{{Name: "greenward_up", Help: "1 when the hub could be read.", Value: 1}}
	o, err := s.overview(r.Context())
	if err != nil {
		zerolog.Ctx(r.Context()).Warn().Err(err).Msg("hub was not measured")
		samples[0].Value = 0
	} else {
		samples = append(samples, measure(o)...)
	}
	for _, m := range s.cfg.Meters {
		samples = append(samples, m.Samples()...)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	s.write(w, r, []byte(Exposition(samples)))
}

func measure(o Overview) []Sample {
	const queue = "greenward_queue_entries"
	counts := map[string]int{"waiting": 0, "building": 0}
	for _, e := range o.Queue {
		counts[e.State]++
	}
	var list []Sample
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, Sample{Name: queue, Help: "Entries in the queue.", Labels: map[string]string{"state": state}, Value: float64(counts[state])})
	}
	flag := func(set bool) float64 {
		if set {
			return 1
		}
		return 0
	}
	return append(list,
		Sample{Name: "greenward_open_tasks", Help: "Task files on main.", Value: float64(o.OpenTasks)},
		Sample{Name: "greenward_green_behind_commits", Help: "Commits of main that green lacks.", Value: float64(o.Behind)},
		Sample{Name: "greenward_green_lag_seconds", Help: "Age of the oldest commit that green lacks.", Value: o.Lag.Seconds()},
		Sample{Name: "greenward_frozen", Help: "1 while nothing lands.", Value: flag(o.Frozen != "")},
		Sample{Name: "greenward_held", Help: "1 while the remote does not take main.", Value: flag(o.Refused != "")},
		Sample{Name: "greenward_green_stale", Help: "1 while green is older than the policy allows.", Value: flag(o.Stale)},
		Sample{Name: "greenward_active_workers", Help: "Claims that somebody holds now.", Value: float64(o.ActiveWorkers)},
		Sample{Name: "greenward_green_held", Help: "1 while green does not move.", Value: flag(o.Held != "")},
	)
}

// Exposition is the text form that Prometheus reads: samples of one name stand
// together, below one HELP and one TYPE line.
func Exposition(samples []Sample) string {
	list := slices.Clone(samples)
	slices.SortStableFunc(list, func(a, b Sample) int { return strings.Compare(a.Name, b.Name) })
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	var out strings.Builder
	for i, s := range list {
		if i == 0 || list[i-1].Name != s.Name {
			kind := "gauge"
			if strings.HasSuffix(s.Name, "_total") {
				kind = "counter"
			}
			fmt.Fprintf(&out, "# HELP %s %s\n# TYPE %s %s\n", s.Name, strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(s.Help), s.Name, kind)
		}
		out.WriteString(s.Name)
		for j, key := range slices.Sorted(maps.Keys(s.Labels)) {
			sep := ","
			if j == 0 {
				sep = "{"
			}
			out.WriteString(sep + key + `="` + escape.Replace(strings.ToValidUTF8(s.Labels[key], "\uFFFD")) + `"`)
		}
		if len(s.Labels) > 0 {
			out.WriteByte('}')
		}
		out.WriteString(" " + strconv.FormatFloat(s.Value, 'g', -1, 64) + "\n")
	}
	return out.String()
}
