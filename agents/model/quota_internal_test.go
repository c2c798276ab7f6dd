package model

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Planners go before workers that came earlier, but do not shut them out.
func TestUrgentGoFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1, time.Now, func() float64 { return 0 })
		held := mustAcquire(t, l)
		order := make(chan string, 100)
		queue := func(name string, urgent bool) {
			go func() {
				p, err := l.acquire(t.Context(), want{urgent: urgent, patience: time.Hour})
				if err != nil {
					t.Error(err)
				}
				order <- name
				l.release(p, nil, nil)
			}()
			synctest.Wait()
		}
		for i := range 3 {
			queue(fmt.Sprint("worker", i), false)
		}
		for i := range 12 {
			queue(fmt.Sprint("planner", i), true)
		}
		l.release(held, nil, nil)
		synctest.Wait()
		close(order)
		var got []string
		for name := range order {
			got = append(got, name)
		}
		if len(got) != 15 || slices.Index(got, "worker0") != maxPassed || slices.Index(got, "planner11") != 12 || got[14] != "worker2" {
			t.Errorf("order %v", got)
		}
	})
}

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set("x-ratelimit-"+pairs[i], pairs[i+1])
	}
	return h
}

// What a server says is left is not overdrawn, and refills as it says.
func TestRateLimitHeaders(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		header http.Header
		tokens int
		waits  []time.Duration // of the requests after that answer
	}{
		"none":             {headers(), 10, []time.Duration{0, 0, 0}},
		"nonsense":         {headers("remaining-requests", "few", "reset-requests", "soon"), 10, []time.Duration{0, 0}},
		"enough":           {headers("remaining-requests", "5", "reset-requests", "1m0s"), 10, []time.Duration{0, 0, 0}},
		"none left":        {headers("remaining-requests", "1", "reset-requests", "30s"), 10, []time.Duration{0, 30 * time.Second, 0}},
		"refills":          {headers("limit-requests", "60", "remaining-requests", "0", "reset-requests", "60s"), 10, []time.Duration{time.Second, time.Second, time.Second}},
		"bare seconds":     {headers("remaining-requests", "0", "reset-requests", "7"), 10, []time.Duration{7 * time.Second, 0}},
		"tokens":           {headers("limit-tokens", "1000", "remaining-tokens", "500", "reset-tokens", "5s"), 600, []time.Duration{time.Second, 4 * time.Second}}, // full again at the time it said
		"more than it has": {headers("limit-tokens", "1000", "remaining-tokens", "0", "reset-tokens", "10s"), 5000, []time.Duration{10 * time.Second}},
		"days":             {headers("remaining-requests", "0", "reset-requests", "48h"), 10, []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(8, time.Now, func() float64 { return 0 })
				l.release(mustAcquire(t, l), nil, one.header)
				for i, wait := range one.waits {
					began := time.Now()
					if _, err := l.acquire(context.Background(), want{tokens: one.tokens, patience: time.Hour}); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(began).Round(100 * time.Millisecond); took != wait {
						t.Errorf("request %d waited %s, want %s", i, took, wait)
					}
				}
			})
		})
	}
}

// A51 by estimate: no text that a model is ever sent is taken for a cut one.
func TestLeastTokensIsLow(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"spaces": strings.Repeat(" ", 100_000), "rules": strings.Repeat("=", 100_000), "table": strings.Repeat("|        |\n", 10_000),
	} {
		got := leastTokens(Request{Messages: []Message{{Text: text}}})
		if most := int64(len(text) / 20); got > most {
			t.Errorf("%s: at least %d tokens, want below %d", name, got, most)
		}
	}
}
