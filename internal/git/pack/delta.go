package pack

import "bytes"

// Bounds of differences between trees: the smallest tree for which one pays, how
// long a chain of them gets (git packs as deep by default), and how much of a tree
// must stand in its base.
const (
	deltaFrom = 120
	deepest   = 45
)

// trees remembers the newest trees of a pack by what they begin and end with: a
// folder in which something changed begins or ends as it did before.
type trees struct{ ends map[string]*tree }

type tree struct {
	data  []byte
	at    int // where it begins in the pack
	depth int // of the chain below it
}

func newTrees() *trees { return &trees{map[string]*tree{}} }

// delta is a tree as a difference to one that the pack has already, and where that
// one begins; nil, where it is to be whole. The tree, which will stand at the
// place given, is remembered either way.
func (t *trees) delta(data []byte, at int) (delta []byte, base int) {
	if len(data) < deltaFrom {
		return nil, 0
	}
	now := &tree{data: data, at: at}
	// What a folder begins and ends with: the first and last bytes hold one entry at least.
	first, last := "^"+string(data[:40]), "$"+string(data[len(data)-40:])
	for _, end := range []string{first, last} {
		before := t.ends[end]
		if before == nil || before.depth >= deepest {
			continue
		}
		if d := difference(before.data, data); d != nil {
			delta, base, now.depth = d, before.at, before.depth+1
			break
		}
	}
	t.ends[first], t.ends[last] = now, now
	return delta, base
}

// difference makes to from the beginning and the end of from, with what is new
// between them; nil where that would be more than half of it.
func difference(from, to []byte) []byte {
	begin := 0
	for most := min(len(from), len(to)); begin+64 <= most && bytes.Equal(from[begin:begin+64], to[begin:begin+64]); {
		begin += 64
	}
	for begin < min(len(from), len(to)) && from[begin] == to[begin] {
		begin++
	}
	end, most := 0, min(len(from), len(to))-begin
	for end+64 <= most && bytes.Equal(from[len(from)-end-64:len(from)-end], to[len(to)-end-64:len(to)-end]) {
		end += 64
	}
	for end < most && from[len(from)-end-1] == to[len(to)-end-1] {
		end++
	}
	if begin+end < len(to)/2 || len(to)-begin-end > MaxStored/2 || len(from) >= 1<<31 {
		return nil
	}
	delta := append(length(len(from)), length(len(to))...)
	delta = appendCopy(delta, 0, begin)
	for rest := to[begin : len(to)-end]; len(rest) > 0; {
		n := min(len(rest), 127)
		delta, rest = append(append(delta, byte(n)), rest[:n]...), rest[n:]
	}
	return appendCopy(delta, len(from)-end, end)
}

// length is a size in a difference: seven bits a byte, the lowest first.
func length(n int) []byte {
	var out []byte
	for ; n >= 0x80; n >>= 7 {
		out = append(out, 0x80|byte(n&0x7f))
	}
	return append(out, byte(n))
}

// mostCopied is how much one instruction copies at most; git's own go no further
// than 64 KiB.
const mostCopied = 0x10000

// appendCopy adds instructions that take n bytes of the base from a place on. Each
// has a byte whose bits say which bytes of place and size follow.
func appendCopy(delta []byte, from, n int) []byte {
	for n > 0 {
		size := min(n, mostCopied)
		op, at := byte(0x80), len(delta)
		delta = append(delta, op)
		for i := range 4 {
			if b := byte(from >> (8 * i)); b != 0 {
				op |= 1 << i
				delta = append(delta, b)
			}
		}
		if size != mostCopied { // none of them says 64 KiB
			for i := range 2 {
				if b := byte(size >> (8 * i)); b != 0 {
					op |= 0x10 << i
					delta = append(delta, b)
				}
			}
		}
		delta[at] = op
		from, n = from+size, n-size
	}
	return delta
}
