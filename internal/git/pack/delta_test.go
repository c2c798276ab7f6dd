package pack

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// patch applies a difference, as git documents it.
func patch(t *testing.T, base, delta []byte) []byte {
	t.Helper()
	number := func() int {
		n := 0
		for shift := 0; ; shift += 7 {
			b := delta[0]
			delta = delta[1:]
			n |= int(b&0x7f) << shift
			if b < 0x80 {
				return n
			}
		}
	}
	if n := number(); n != len(base) {
		t.Fatalf("the base has %d bytes, not %d", len(base), n)
	}
	want := number()
	var out []byte
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		if op < 0x80 {
			if op == 0 {
				t.Fatal("an instruction that means nothing")
			}
			out, delta = append(out, delta[:op]...), delta[op:]
			continue
		}
		var value [2]int
		for i := range 7 {
			if op&(1<<i) != 0 {
				value[i/4] |= int(delta[0]) << (8 * (i % 4))
				delta = delta[1:]
			}
		}
		if value[1] == 0 {
			value[1] = 0x10000
		}
		out = append(out, base[value[0]:value[0]+value[1]]...)
	}
	if len(out) != want {
		t.Fatalf("%d bytes came out, %d were announced", len(out), want)
	}
	return out
}

// change is data with some bytes replaced, put in and taken out at one place.
func change(r *rand.Rand, data []byte) []byte {
	at := r.IntN(len(data) + 1)
	gone := min(r.IntN(60), len(data)-at)
	fresh := make([]byte, r.IntN(300))
	for i := range fresh {
		fresh[i] = byte(r.Uint32())
	}
	return bytes.Join([][]byte{data[:at], fresh, data[at+gone:]}, nil)
}

func TestDifferenceMakesTheOther(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	short := 0
	for i := range 3_000 {
		from := make([]byte, r.IntN(1+[]int{200, 5_000, 200_000}[i%3]))
		for j := range from {
			from[j] = byte(r.UintN(3)) // so that beginning and end may overlap
		}
		to := change(r, from)
		delta := difference(from, to)
		if delta == nil {
			if len(to) > 1_000 {
				t.Fatalf("none between %d and %d bytes", len(from), len(to))
			}
			continue
		}
		if got := patch(t, from, delta); !bytes.Equal(got, to) {
			t.Fatalf("try %d: %d bytes came out, %d were wanted", i, len(got), len(to))
		}
		if len(delta) < len(to)/2 {
			short++
		}
	}
	if short < 1_000 {
		t.Errorf("%d differences are short", short)
	}
}

func FuzzDifference(f *testing.F) {
	f.Add([]byte("abcdefgh"), []byte("abcxefgh"))
	f.Add([]byte("aaaa"), []byte("aaaaaaaa"))
	f.Add([]byte{}, []byte("x"))
	f.Fuzz(func(t *testing.T, from, to []byte) {
		if delta := difference(from, to); delta != nil {
			if got := patch(t, from, delta); !bytes.Equal(got, to) {
				t.Errorf("%q came out", got)
			}
		}
	})
}

// A chain of differences does not get deeper than what git reads without care.
func TestChainsEnd(t *testing.T) {
	t.Parallel()
	trees := newTrees()
	data := bytes.Repeat([]byte("100644 name\x0001234567890123456789"), 50)
	whole := 0
	for i := range 200 {
		data = bytes.Clone(data)
		data[len(data)/2] = byte(i)
		if delta, base := trees.delta(data, 1_000+i); delta == nil {
			whole++
		} else if base != 1_000+i-1 {
			t.Fatalf("tree %d is a difference to %d", i, base-1_000)
		}
	}
	if whole != 5 { // 200 in chains of 46
		t.Errorf("%d of 200 trees are whole", whole)
	}
}
