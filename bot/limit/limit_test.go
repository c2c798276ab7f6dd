package limit

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// at is a limiter whose clock the test moves.
func at(t *testing.T, path string, now *time.Time) *Limiter {
	t.Helper()
	l, err := Open(path, Rates{}, func() time.Time { return *now })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestPausesOutliveTheProcess(t *testing.T) {
	now, path := time.Unix(1e9, 0), filepath.Join(t.TempDir(), "limits.json")
	l := at(t, path, &now)
	for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour} {
		until, err := l.Cool(0)
		if err != nil || until.Sub(now) != want {
			t.Fatalf("pause of %v, %v; want %v", until.Sub(now), err, want)
		}
		l = at(t, path, &now)
		now = until
	}
	l.Calm()
	if until, err := l.Cool(0); err != nil || until.Sub(now) != time.Minute {
		t.Fatalf("after calm: %v %v", until.Sub(now), err)
	}
	if until, err := l.Cool(100 * time.Hour); err != nil || until.Sub(now) != maxPause {
		t.Fatalf("bound: %v %v", until.Sub(now), err)
	}
	if until, err := l.Cool(time.Second); err != nil || until.Sub(now) != maxPause {
		t.Fatalf("a shorter pause ended a longer one: %v %v", until.Sub(now), err)
	}
	if wait, err := l.Write(); err != nil || wait != maxPause {
		t.Fatalf("a write in the pause waits %v %v", wait, err)
	}
}

func TestBrokenFileIsBegunAnew(t *testing.T) {
	now, path := time.Unix(1e9, 0), filepath.Join(t.TempDir(), "limits.json")
	if err := os.WriteFile(path, []byte(`{"until":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if wait, err := at(t, path, &now).Write(); wait != 0 || err != nil {
		t.Fatalf("waits %v %v", wait, err)
	}
}

// Q39: whatever is asked for and whenever the process starts anew, no minute has
// more than 80 writes and no hour more than 500, and a write that waits as told may
// be made.
func TestQ39RatesAreKept(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 39))
		now, path := time.Unix(1e9, 0), filepath.Join(t.TempDir(), "limits.json")
		l := at(t, path, &now)
		var made []time.Time
		for range 700 {
			if rng.IntN(100) == 0 {
				l = at(t, path, &now)
			}
			wait, err := l.Write()
			if err != nil {
				t.Fatal(err)
			}
			if wait > 0 {
				now = now.Add(wait)
				if again, err := l.Write(); again != 0 || err != nil {
					t.Fatalf("seed %d: after waiting %v as told it waits %v, %v", seed, wait, again, err)
				}
			}
			made = append(made, now)
			now = now.Add(time.Duration(rng.IntN(900)) * time.Millisecond)
			for _, rate := range []struct {
				span time.Duration
				most int
			}{{time.Minute, 80}, {time.Hour, 500}} {
				n := 0
				for i := len(made) - 1; i >= 0 && made[len(made)-1].Sub(made[i]) < rate.span; i-- {
					n++
				}
				if n > rate.most {
					t.Fatalf("seed %d: %d writes in %v", seed, n, rate.span)
				}
			}
		}
	}
}

func TestGapBetweenTwoWrites(t *testing.T) {
	now := time.Unix(1e9, 0)
	l, err := Open(filepath.Join(t.TempDir(), "l"), Rates{Gap: time.Second}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	if wait, err := l.Write(); wait != 0 || err != nil {
		t.Fatal(wait, err)
	}
	now = now.Add(300 * time.Millisecond)
	if wait, err := l.Write(); wait != 700*time.Millisecond || err != nil {
		t.Fatalf("waits %v %v", wait, err)
	}
	now = now.Add(-time.Hour) // the clock was set back
	if wait, err := l.Write(); wait != 0 || err != nil {
		t.Fatalf("waits %v %v", wait, err)
	}
}
