package model

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// bucket is what a server lets through within some time, as its answers say: it
// fills at a constant rate and every request takes out of it. What is not known
// does not bind.
type bucket struct {
	known bool
	level float64 // at the time at
	full  float64 // 0: unknown
	rate  float64 // a second; 0: it is full again at until, and not before
	at    time.Time
	until time.Time // it is full then, whatever was taken: servers say it anew with every answer
}

// wait is how long until need may be taken; 0: now.
func (b *bucket) wait(need float64, now time.Time) time.Duration {
	if !b.known {
		return 0
	}
	if !now.Before(b.until) {
		b.known = false
		return 0
	}
	if b.full > 0 {
		need = min(need, b.full)
	}
	level := b.level + b.rate*now.Sub(b.at).Seconds()
	if level >= need {
		return 0
	}
	left := b.until.Sub(now)
	if b.rate > 0 {
		left = min(left, seconds((need-level)/b.rate)+time.Millisecond)
	}
	return left
}

func (b *bucket) take(need float64) { b.level -= need }

// learn reads one kind of x-ratelimit headers: limit, remaining, and the time
// until it is full again. flying is what was taken out since that answer was on
// its way and that remaining may not count yet.
func (b *bucket) learn(h http.Header, kind string, flying float64, now time.Time) {
	remaining, err := strconv.ParseFloat(strings.TrimSpace(h.Get("X-Ratelimit-Remaining-"+kind)), 64)
	reset, ok := resetTime(h.Get("X-Ratelimit-Reset-" + kind))
	if err != nil || !ok || reset <= 0 || remaining < 0 {
		return
	}
	*b = bucket{known: true, level: remaining - flying, at: now, until: now.Add(reset)}
	if full, err := strconv.ParseFloat(strings.TrimSpace(h.Get("X-Ratelimit-Limit-"+kind)), 64); err == nil && full > remaining {
		b.full, b.rate = full, (full-remaining)/reset.Seconds()
	}
}

// resetTime reads 6m0s, 20ms or a bare number of seconds. Long ones are not
// believed: a server that says days is met by its 429.
func resetTime(s string) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	d, err := time.ParseDuration(s)
	if err != nil {
		n, nerr := strconv.ParseFloat(s, 64)
		if nerr != nil {
			return 0, false
		}
		d = seconds(n)
	}
	return d, d <= 10*time.Minute
}
