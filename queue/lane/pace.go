package lane

// Bounds of the pace: how many landings may be unjudged at once.
const (
	PaceMost  = 256 // as many: there is no bound
	paceLeast = 4
	paceStep  = 16
)

// paceCycles is over how many cycles arrivals and repairs are compared.
const paceCycles = 4

// pace is the controller. Its zero value is open.
type pace struct {
	slow     bool
	limit    int
	arrived  []int // culprits, by cycle, newest last
	repairs  []int
	repaired int // since the newest cycle
	out      int // culprits that nothing has repaired yet
}

// cycle takes in how many culprits a cycle found; clean says that nothing is
// broken any more.
func (p *pace) cycle(arrived int, clean bool) {
	repaired := p.repaired
	if clean {
		repaired = p.out + arrived
	}
	p.repaired = 0
	before := p.out
	p.out = max(p.out+arrived-repaired, 0)
	p.arrived, p.repairs = push(p.arrived, arrived), push(p.repairs, repaired)
	switch {
	case before > 0 && p.out > 1 && arrived > 0 && sum(p.arrived) > sum(p.repairs):
		if !p.slow {
			p.slow, p.limit = true, PaceMost
		}
		p.limit = max(p.limit/2, paceLeast)
	case p.slow && sum(p.arrived) <= sum(p.repairs):
		if p.limit += paceStep; p.limit >= PaceMost {
			p.slow, p.limit = false, 0
		}
	}
}

func push(list []int, n int) []int {
	list = append(append([]int{}, list...), n)
	return list[max(0, len(list)-paceCycles):]
}

func sum(list []int) int {
	total := 0
	for _, n := range list {
		total += n
	}
	return total
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
