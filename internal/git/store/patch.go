package store

import (
	"fmt"
	"sync"
)

// length is a size in a difference: seven bits a byte, the lowest first.
func length(delta []byte) (n int64, rest []byte, err error) {
	for i, b := range delta {
		if i > 8 {
			break
		}
		n |= int64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return n, delta[i+1:], nil
		}
	}
	return 0, nil, fmt.Errorf("%w: a size has no end", ErrTorn)
}

// patch applies a difference, as git documents it: instructions that copy from the
// base, and such that bring bytes of their own.
func patch(base, delta []byte) ([]byte, error) {
	from, delta, err := length(delta)
	if err != nil {
		return nil, err
	}
	to, delta, err := length(delta)
	if err != nil {
		return nil, err
	}
	if from != int64(len(base)) || to > trusted && to/0x10000 > int64(len(delta)) {
		return nil, fmt.Errorf("%w: a difference to %d bytes, and the base has %d", ErrTorn, from, len(base))
	}
	out := make([]byte, 0, to)
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		if op < 0x80 {
			if op == 0 || int(op) > len(delta) || int64(len(out))+int64(op) > to {
				return nil, fmt.Errorf("%w: a difference that ends too soon or too late", ErrTorn)
			}
			out, delta = append(out, delta[:op]...), delta[op:]
			continue
		}
		var part [2]int // place and size
		for i := range 7 {
			if op&(1<<i) == 0 {
				continue
			}
			if len(delta) == 0 {
				return nil, fmt.Errorf("%w: a difference that is cut short", ErrTorn)
			}
			part[i/4] |= int(delta[0]) << (8 * (i % 4))
			delta = delta[1:]
		}
		if part[1] == 0 {
			part[1] = 0x10000
		}
		if part[0]+part[1] > len(base) || int64(len(out))+int64(part[1]) > to {
			return nil, fmt.Errorf("%w: a difference that takes what is not there", ErrTorn)
		}
		out = append(out, base[part[0]:part[0]+part[1]]...)
	}
	if int64(len(out)) != to {
		return nil, fmt.Errorf("%w: %d bytes came out, %d were announced", ErrTorn, len(out), to)
	}
	return out, nil
}

// Bounds of what is kept for differences to stand on.
const (
	keptBytes = 32 << 20
	keptMost  = 1 << 20 // of one
)

// place is where an entry begins.
type place struct {
	p  *packFile
	at int64
}

type base struct {
	kind Kind
	data []byte
}

// cache holds entries that others may stand on, in two generations.
type cache struct {
	mu         sync.Mutex
	young, old map[place]base
	size       int // of young
}

// get gives what is kept of a place; nil: nothing. It is shared: it must not be changed.
func (c *cache) get(p *packFile, at int64) (Kind, []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.young[place{p, at}]; ok {
		return b.kind, b.data
	}
	b, ok := c.old[place{p, at}]
	if !ok {
		return 0, nil
	}
	c.add(place{p, at}, b)
	return b.kind, b.data
}

func (c *cache) put(p *packFile, at int64, kind Kind, data []byte) {
	if len(data) == 0 || len(data) > keptMost {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(place{p, at}, base{kind, data})
}

func (c *cache) add(at place, b base) {
	if c.young == nil || c.size > keptBytes/2 {
		c.young, c.old, c.size = map[place]base{}, c.young, 0
	}
	if _, has := c.young[at]; !has {
		c.young[at] = b
		c.size += len(b.data)
	}
}

func (c *cache) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young, c.old, c.size = nil, nil, 0
}
