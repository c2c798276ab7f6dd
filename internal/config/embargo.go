package config

import (
	"fmt"
	"strings"
	"time"
)

// A Window is a span of every week in which nothing lands.
type Window struct {
	text     string
	from, to weekTime
	zone     *time.Location
}

// weekTime is a time of the week.
type weekTime struct {
	day          time.Weekday
	hour, minute int
}

// Windows are the embargoes of a queue. Those of a Config that was read are
// well-formed; others are left out.
func (q Queue) Windows() []Window {
	var all []Window
	for _, s := range q.Embargo {
		if w, err := parseWindow(s); err == nil {
			all = append(all, w)
		}
	}
	return all
}

func (w Window) String() string { return w.text }

// Covers reports whether a moment lies in the window, and when that ends.
func (w Window) Covers(now time.Time) (until time.Time, covered bool) {
	local := now.In(w.zone)
	for back := range 15 { // begun on one of the last days; two weeks for a window of a whole one
		day := local.AddDate(0, 0, -back)
		if day.Weekday() != w.from.day {
			continue
		}
		begin := time.Date(day.Year(), day.Month(), day.Day(), w.from.hour, w.from.minute, 0, 0, w.zone)
		days := (int(w.to.day) - int(w.from.day) + 7) % 7
		end := time.Date(day.Year(), day.Month(), day.Day()+days, w.to.hour, w.to.minute, 0, 0, w.zone)
		if !end.After(begin) {
			end = time.Date(day.Year(), day.Month(), day.Day()+days+7, w.to.hour, w.to.minute, 0, 0, w.zone)
		}
		if !now.Before(begin) && now.Before(end) {
			return end, true
		}
	}
	return time.Time{}, false
}

// embargo is a weekly window: "Fri 13:00 - Mon 09:00 Europe/Berlin".
func embargo(s string) (string, error) {
	_, err := parseWindow(s)
	return s, err
}

func parseWindow(s string) (Window, error) {
	const hint = "as in Fri 13:00 - Mon 09:00 Europe/Berlin"
	w := Window{text: s}
	f := strings.Fields(s)
	if len(f) != 6 || f[2] != "-" {
		return w, refuse(hint, "%q is not a window of the week", s)
	}
	for i, at := range []*weekTime{&w.from, &w.to} {
		text := f[3*i] + " " + f[3*i+1]
		clock, err := time.Parse("Mon 15:04", text)
		if err != nil {
			return w, refuse(hint, "%q is not a day and time", text)
		}
		at.hour, at.minute = clock.Hour(), clock.Minute()
		for day := range time.Saturday + 1 {
			if strings.EqualFold(day.String()[:3], f[3*i]) {
				at.day = day
			}
		}
	}
	if w.from == w.to {
		return w, refuse(hint, "%q begins when it ends", s)
	}
	if f[5] == "Local" {
		return w, refuse(hint, "%q differs from machine to machine", f[5])
	}
	zone, err := time.LoadLocation(f[5])
	if err != nil {
		return w, refuse(hint, "%q is not a time zone", f[5])
	}
	w.zone = zone
	return w, nil
}

// Embargoed reports whether an embargo lasts at a moment, until when and why.
// Windows that overlap or touch count as one.
func (q Queue) Embargoed(now time.Time) (until time.Time, why string) {
	windows := q.Windows()
	at := now
	for range len(windows) + 1 {
		more := false
		for _, w := range windows {
			if at.Sub(now) > 7*24*time.Hour { // windows that follow each other for ever
				break
			}
			if end, covered := w.Covers(at); covered && end.After(until) {
				if why == "" {
					why = w.String()
				}
				until, at, more = end, end, true
			}
		}
		if !more {
			break
		}
	}
	if why == "" {
		return time.Time{}, ""
	}
	return until, fmt.Sprintf("embargo (%s) until %s", why, until.UTC().Format(time.RFC3339))
}
