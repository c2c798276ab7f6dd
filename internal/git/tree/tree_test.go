package tree_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"greenward/internal/git/tree"

	"github.com/google/go-cmp/cmp"
)

// entry is an entry of a naive tree.
type entry struct{ mode, name, id string }

func (e entry) key() string {
	if e.mode == "40000" {
		return e.name + "/"
	}
	return e.name
}

func stored(entries []entry) []byte {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key(), b.key()) })
	var out bytes.Buffer
	for _, e := range entries {
		fmt.Fprintf(&out, "%s %s\x00%s", e.mode, e.name, e.id)
	}
	return out.Bytes()
}

func plain(i tree.Item) entry { return entry{string(i.Mode), string(i.Name), string(i.ID)} }

// random is a tree of up to n entries, whose ids like to look like parts of entries.
func random(r *rand.Rand, n int) []entry {
	byName := map[string]entry{}
	for range r.IntN(n + 1) {
		name := fmt.Sprintf("%c%d", 'a'+r.IntN(3), r.IntN(4*n))
		byName[name] = entry{[]string{"100644", "40000", "100755"}[r.IntN(3)], name, id(r)}
	}
	var out []entry
	for _, e := range byName {
		out = append(out, e)
	}
	return out
}

func id(r *rand.Rand) string {
	switch r.IntN(3) {
	case 0:
		return "100644 a1\x00" + strings.Repeat("x", 10)
	case 1:
		return strings.Repeat("\x00", 20)
	}
	b := make([]byte, 20)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// varied is a tree in which some entries changed, came and went.
func varied(r *rand.Rand, from []entry) []entry {
	var out []entry
	for _, e := range from {
		switch r.IntN(12) {
		case 0:
			continue
		case 1:
			e.id = id(r)
		case 2:
			e.mode = []string{"100644", "40000", "100755"}[r.IntN(3)]
		}
		out = append(out, e)
	}
	if r.IntN(2) == 0 {
		out = append(out, entry{"100644", fmt.Sprintf("b%d-new", r.IntN(100)), id(r)})
	}
	return out
}

func TestChangesAndApplyAgreeWithANaiveTree(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for try := range 4_000 {
		a := random(r, []int{3, 40, 300}[try%3])
		b := varied(r, a)
		from, to := stored(a), stored(b)
		changes, err := tree.Changes(from, to)
		if err != nil {
			t.Fatal(err)
		}
		had, has := map[string]entry{}, map[string]entry{}
		for _, e := range a {
			had[e.key()] = e
		}
		for _, e := range b {
			has[e.key()] = e
		}
		want := map[string][2]entry{}
		for key, e := range had {
			if has[key] != e {
				want[key] = [2]entry{e, has[key]}
			}
		}
		for key, e := range has {
			if had[key] != e {
				want[key] = [2]entry{had[key], e}
			}
		}
		got, last := map[string][2]entry{}, ""
		var edits []tree.Edit
		for _, c := range changes {
			one := plain(c.From)
			if c.From.None() {
				one = plain(c.To)
			}
			if one.key() <= last {
				t.Fatalf("%q comes after %q", one.key(), last)
			}
			last = one.key()
			got[last] = [2]entry{plain(c.From), plain(c.To)}
			edits = append(edits, tree.Edit{Old: c.From, New: c.To})
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(entry{})); diff != "" {
			t.Fatalf("try %d (-want +got):\n%s", try, diff)
		}
		out, err := tree.Apply(from, edits)
		if err != nil || !bytes.Equal(out, to) {
			t.Fatalf("try %d: %v\n%q\n%q", try, err, out, to)
		}
		for _, e := range b {
			if found, err := tree.Find(to, []byte(e.name)); err != nil || string(found.Name) != e.name {
				t.Fatalf("%q: %v, %v", e.name, found, err)
			}
		}
		if found, err := tree.Find(to, []byte("zz")); err != nil || !found.None() {
			t.Fatalf("%v, %v", found, err)
		}
	}
}

func TestTornAndUnorderedTrees(t *testing.T) {
	t.Parallel()
	one, two := entry{"100644", "a", strings.Repeat("1", 20)}, entry{"100644", "b", strings.Repeat("2", 20)}
	whole := stored([]entry{one, two})
	for n := 1; n < len(whole); n++ {
		if n == len(whole)/2 {
			continue // exactly one entry
		}
		if _, err := tree.Changes(whole[:n], nil); !errors.Is(err, tree.ErrTorn) {
			t.Errorf("%d bytes: %v", n, err)
		}
		if err := tree.Each(whole[:n], func(tree.Item) bool { return true }); !errors.Is(err, tree.ErrTorn) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for _, odd := range [][]byte{append(stored([]entry{two}), stored([]entry{one})...), append(stored([]entry{one}), stored([]entry{one})...)} {
		if _, err := tree.Apply(odd, nil); !errors.Is(err, tree.ErrUnordered) {
			t.Errorf("%q: %v", odd, err)
		}
	}
}

func FuzzChanges(f *testing.F) {
	f.Add(stored([]entry{{"100644", "a", strings.Repeat("1", 20)}}), stored([]entry{{"40000", "a", strings.Repeat("2", 20)}}))
	f.Add([]byte("100644 a"), []byte{})
	f.Fuzz(func(t *testing.T, from, to []byte) {
		changes, err := tree.Changes(from, to)
		if err != nil {
			return // of bytes that are no tree nothing is said but that
		}
		if bytes.Equal(from, to) != (len(changes) == 0) {
			t.Errorf("%d changes between %q and %q", len(changes), from, to)
		}
	})
}
