package config

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// schedule holds the rules of a cron line: five fields, or a descriptor, with
// an optional zone in front. Whoever runs the schedule has a parser of its own;
// what passes here passes there.
func schedule(s string) (string, error) {
	rest, err := cutZone(s)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(rest, "@") {
		return s, descriptor(rest)
	}
	f := strings.Fields(rest)
	if len(f) != 5 {
		return "", refuse("minute hour day month weekday, as in */10 * * * *, or @hourly, @daily, @every 30m",
			"%q has %d fields, a schedule has 5", s, len(f))
	}
	months := []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	days := []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	for i, rule := range []cronField{
		{name: "minute", most: 59},
		{name: "hour", most: 23},
		{name: "day", least: 1, most: 31},
		{name: "month", least: 1, most: 12, words: months},
		{name: "weekday", most: 6, words: days},
	} {
		for part := range strings.SplitSeq(f[i], ",") {
			if err := rule.check(part); err != nil {
				return "", err
			}
		}
	}
	return s, nil
}

func cutZone(s string) (string, error) {
	if !strings.HasPrefix(s, "TZ=") && !strings.HasPrefix(s, "CRON_TZ=") {
		return s, nil
	}
	head, rest, ok := strings.Cut(s, " ")
	_, zone, _ := strings.Cut(head, "=")
	if _, err := time.LoadLocation(zone); err != nil || !ok || zone == "" {
		return "", refuse("as in TZ=Europe/Berlin 0 3 * * *", "%q is not a time zone and a schedule", s)
	}
	return strings.TrimSpace(rest), nil
}

func descriptor(s string) error {
	named := []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
	if slices.Contains(named, s) {
		return nil
	}
	every, ok := strings.CutPrefix(s, "@every ")
	if !ok {
		return refuse(nearest(s, append(named, "@every 30m")), "%q is not a schedule", s)
	}
	if d, err := time.ParseDuration(every); err != nil || d < time.Second {
		return refuse("as in @every 30m", "%q is not a duration of a second or more", every)
	}
	return nil
}

// A cronField is one of the five, with the numbers and words it takes.
type cronField struct {
	name        string
	least, most int
	words       []string
}

// check takes *, 5, 1-5, each with an optional /step.
func (f cronField) check(part string) error {
	span, step, stepped := strings.Cut(part, "/")
	if n, err := strconv.Atoi(step); stepped && (err != nil || n < 1 || n > f.most) {
		return refuse("as in */10", "%q is not a step of the %s", part, f.name)
	}
	if span == "*" || span == "?" {
		return nil
	}
	first, last, ranged := strings.Cut(span, "-")
	a, ok := f.number(first)
	b, both := a, true
	if ranged {
		b, both = f.number(last)
	}
	if !ok || !both || a > b {
		return refuse("", "%q is not a %s from %d to %d, nor a range of them", part, f.name, f.least, f.most)
	}
	return nil
}

func (f cronField) number(s string) (int, bool) {
	if i := slices.Index(f.words, strings.ToLower(s)); i >= 0 {
		return i + f.least, true
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= f.least && n <= f.most && s[0] != '-' && s[0] != '+'
}
