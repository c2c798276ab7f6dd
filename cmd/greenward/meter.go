package main

import (
	"greenward/bot"
	"greenward/internal/web"
)

// meter tells the door's figures.
type meter struct{ door *bot.Door }

// Samples are the deliveries by outcome, and since when none came.
func (m meter) Samples() []web.Sample {
	stats := m.door.Stats()
	var list []web.Sample
	for outcome, n := range stats.Deliveries {
		list = append(list, web.Sample{Name: "greenward_webhook_deliveries_total", Help: "Deliveries of GitHub.", Labels: map[string]string{"outcome": outcome}, Value: float64(n)})
	}
	list = append(list, web.Sample{Name: "greenward_webhook_refused_in_a_row", Help: "Deliveries with a bad signature since the last good one.", Value: float64(stats.Refused)})
	if !stats.Delivered.IsZero() {
		list = append(list, web.Sample{Name: "greenward_webhook_last_delivery_timestamp_seconds", Help: "When the last delivery with a good signature came.", Value: float64(stats.Delivered.Unix())})
	}
	return list
}

// botMeter tells the figures of one repository's bot.
type botMeter struct {
	bot        *bot.Bot
	repository string
}

// Samples are the bot's counters since the start, and how it stands.
func (m botMeter) Samples() []web.Sample {
	s := m.bot.Stats()
	labels := map[string]string{"repository": m.repository}
	one := func(name, help string, value float64) web.Sample {
		return web.Sample{Name: "greenward_github_" + name, Help: help, Labels: labels, Value: value}
	}
	list := []web.Sample{
		one("reconciles_total", "Looks at GitHub.", float64(s.Reconciles)),
		one("failures_total", "Looks that ended with an error.", float64(s.Failures)),
		one("requests_total", "Requests to the API.", float64(s.Calls)),
		one("unchanged_total", "Requests answered by 304, which cost nothing of the rate.", float64(s.Unchanged)),
		one("writes_total", "Comments, check runs and the like that were written.", float64(s.Writes)),
		one("limited_total", "Answers that were rate limits.", float64(s.Limited)),
		one("unsaid", "Reports that wait for their turn.", float64(s.Unsaid)),
		one("oldest_request_seconds", "Age of the oldest request that has not come to its end.", s.Oldest.Seconds()),
		one("unannounced_commands", "Commands in a row that no delivery spoke of.", float64(s.Unannounced)),
	}
	if s.Remaining > 0 {
		list = append(list, one("rate_remaining", "Requests that GitHub still grants this hour, as of its last answer.", float64(s.Remaining)))
	}
	if !s.CoolUntil.IsZero() {
		list = append(list, one("pause_until_timestamp_seconds", "When the pause ends, or ended, that GitHub asked for.", float64(s.CoolUntil.Unix())))
	}
	return list
}
