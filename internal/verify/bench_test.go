package verify

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"testing"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/proc"
)

func BenchmarkJudgeTrueOn500Files(b *testing.B) {
	x := newBench(b)
	files := map[string]string{}
	for i := range 500 {
		files[fmt.Sprintf("dir%02d/file%03d.txt", i%25, i)] = fmt.Sprintf("content of file %d\n", i)
	}
	s := x.commit(b, files)
	for b.Loop() {
		report, err := x.runner.Judge(b.Context(), s, []config.Check{check("true", "true")}, true)
		if err != nil || report.Ran != 1 {
			b.Fatal(report, err)
		}
	}
}

// tenThousand writes a ledger of 10,000 signed lines on as many objects.
func tenThousand(b *testing.B, x *bench) []git.Hash {
	b.Helper()
	var on []git.Hash
	var runs []Run
	for i := range 10_000 {
		h := git.Hash(fmt.Sprintf("%x", sha1.Sum(fmt.Append(nil, i))))
		on = append(on, h)
		runs = append(runs, signed(b, x.signer, someRun(h, "r", Passed)))
	}
	add(b, x.ledger, runs...)
	gittest.Git(b, x.dir, "repack", "-adq")
	if _, err := x.ledger.All(); err != nil { // index and verify
		b.Fatal(err)
	}
	return on
}

func BenchmarkLedgerOpen10000(b *testing.B) {
	x := newBench(b)
	on := tenThousand(b, x)
	for b.Loop() {
		repo, err := git.Open(b.Context(), x.dir, gittest.Host(b)) // nothing is in memory yet
		if err != nil {
			b.Fatal(err)
		}
		l, err := OpenLedger(repo, []string{x.signer.Public()})
		if err != nil {
			b.Fatal(err)
		}
		if runs, err := l.For(on[0], check("test", "true")); err != nil || len(runs) != 1 {
			b.Fatal(runs, err)
		}
	}
}

func BenchmarkLedgerForIn10000(b *testing.B) {
	x := newBench(b)
	on := tenThousand(b, x)
	c := check("test", "true")
	i := 0
	for b.Loop() {
		if runs, err := x.ledger.For(on[i%len(on)], c); err != nil || len(runs) != 1 {
			b.Fatal(runs, err)
		}
		i++
	}
}

func BenchmarkLedgerAddTo10000(b *testing.B) {
	x := newBench(b)
	on := tenThousand(b, x)
	i := 0
	for b.Loop() {
		i++
		add(b, x.ledger, signed(b, x.signer, someRun(on[i%len(on)], fmt.Sprintf("r%d", i), Passed)))
	}
}

// A failed check wants the history of its definition, which is read once a
// ledger's state.
func BenchmarkKnownFailureIn10000(b *testing.B) {
	x := newBench(b)
	on := tenThousand(b, x)
	for i := range 50 {
		add(b, x.ledger, signed(b, x.signer, someRun(on[i], "f", Failed)))
	}
	c := check("test", "true")
	i := 0
	for b.Loop() {
		s := Subject{Commit: on[i%50], Tree: on[i%50]}
		if o, err := x.ledger.known(s, c); err != nil || o.Fails != 1 {
			b.Fatal(o, err)
		}
		i++
	}
}

func BenchmarkPosterior(b *testing.B) {
	for b.Loop() {
		if n := (Noise{Flake: .005}).Missing(0, 1, .99); n != 7 {
			b.Fatal(n)
		}
	}
}

func BenchmarkGoReport(b *testing.B) {
	event := []byte(`{"Time":"2026-11-01T12:00:00.0Z","Action":"output","Package":"m/p","Test":"TestA/b","Output":"=== RUN   TestA/b\n"}` + "\n")
	text := bytes.Repeat(event, 10_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r := newGoReport(proc.NewCapture(headKept, tailKept, nil))
		if _, err := r.Write(text); err != nil {
			b.Fatal(err)
		}
		if tally, err := r.finish(); err != nil || !tally.Seen {
			b.Fatal(tally, err)
		}
	}
}
