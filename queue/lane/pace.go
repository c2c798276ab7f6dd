package lane

import "slices"

// Bounds of the pace: how many landings may be unjudged at once.
const (
	PaceMost  = 256 // as many: there is no bound
	paceLeast = 4
	paceStep  = 16
)

// The pace follows how many culprits wait for their repair: it is slowed while they
// are paceAlarm or more, and more than paceCycles cycles ago.
const (
	paceCycles = 4
	paceAlarm  = 3
)

// pace is the controller. Its zero value is open.
type pace struct {
	slow     bool
	limit    int
	outs     []int // culprits without a repair after each cycle, newest last
	repaired int   // since the newest cycle
	out      int   // culprits that nothing has repaired yet
}

// cycle takes in how many culprits a cycle found; clean says that nothing is
// broken any more.
func (p *pace) cycle(arrived int, clean bool) {
	p.out = max(p.out+arrived-p.repaired, 0)
	if clean {
		p.out = 0
	}
	p.repaired = 0
	before := p.out
	if len(p.outs) > 0 {
		before = p.outs[0]
	}
	outs := append(slices.Clone(p.outs), p.out)
	p.outs = outs[max(0, len(outs)-paceCycles):]
	switch {
	case arrived > 0 && p.out >= paceAlarm && p.out > before:
		if !p.slow {
			p.slow, p.limit = true, PaceMost
		}
		p.limit = max(p.limit/2, paceLeast)
	case p.slow && p.out <= before:
		if p.limit += paceStep; p.limit >= PaceMost {
			p.slow, p.limit = false, 0
		}
	}
}

// Pace is how many landings may be unjudged at once; PaceMost: any number.
func (b *Book) Pace() int {
	if !b.pace.slow {
		return PaceMost
	}
	return b.pace.limit
}

// Outstanding is how many culprits nothing has repaired yet.
func (b *Book) Outstanding() int { return b.pace.out }
