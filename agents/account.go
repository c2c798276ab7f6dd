package agents

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"greenward/agents/model"
)

// ErrBudget says that what a run, or a slice of it, may cost is used up. Whoever
// meets it stops where it is: the task stays open, its work is rescued.
var ErrBudget = errors.New("the budget is used up")

// BudgetError is an ErrBudget of a path.
type BudgetError struct {
	Path string // the run, or a slice of it
	Why  string
}

func (e *BudgetError) Error() string { return fmt.Sprintf("%s: %v: %s", e.Path, ErrBudget, e.Why) }
func (e *BudgetError) Unwrap() error { return ErrBudget }

// Run reports whether the whole run has to end.
func (e *BudgetError) Run() bool { return !strings.Contains(e.Path, "/") }

// Budget bounds what is spent; a zero field bounds nothing.
type Budget struct {
	Tokens int64
	USD    float64
}

// share is a part of a budget.
func (b Budget) share(part float64) Budget {
	return Budget{Tokens: int64(float64(b.Tokens) * part), USD: b.USD * part}
}

// over says what of the budget is used up, or "". Tokens without a price count at
// dearest, in USD for a million, so that money is bounded whatever a server calls
// its model; where no price is known at all, money bounds nothing.
func (b Budget) over(s Sum, dearest float64) string {
	unpriced := float64(s.Unpriced) * dearest / 1e6
	switch {
	case b.Tokens > 0 && s.Total() >= b.Tokens:
		return fmt.Sprintf("%d of %d tokens", s.Total(), b.Tokens)
	case b.USD > 0 && s.USD+unpriced >= b.USD && unpriced > 0:
		return fmt.Sprintf("%.2f of %.2f USD, %.2f of it for %d tokens whose price is not known, at the dearest that is", s.USD+unpriced, b.USD, unpriced, s.Unpriced)
	case b.USD > 0 && s.USD >= b.USD:
		return fmt.Sprintf("%.2f of %.2f USD", s.USD, b.USD)
	}
	return ""
}

// Sum is what was spent.
type Sum struct {
	model.Usage
	Replies  int64
	USD      float64
	Unpriced int64 // tokens of models that no price is known of: USD is without them
}

func (s Sum) add(t Sum) Sum {
	return Sum{Usage: s.Add(t.Usage), Replies: s.Replies + t.Replies, USD: s.USD + t.USD, Unpriced: s.Unpriced + t.Unpriced}
}

// Prices are known by the names of models.
type Prices map[string]model.Price

// Sum is the price of one reply of the first of these names that has one: what the
// server calls its model, then what it was asked for. A server may name a model
// more precisely than it was asked for: then the longest name that begins it counts.
func (p Prices) Sum(u model.Usage, names ...string) Sum {
	s := Sum{Usage: u, Replies: 1}
	for _, name := range names {
		if known := p.known(name); known != "" {
			s.USD = p[known].Cost(u)
			return s
		}
	}
	s.Unpriced = u.Total()
	return s
}

// Known reports whether a model has a price.
func (p Prices) Known(name string) bool { return p.known(name) != "" }

// known is the name under which a model has its price, or "".
func (p Prices) known(name string) (best string) {
	for known := range p {
		if known == name || strings.HasPrefix(name, known+"-") && len(known) > len(best) {
			if best = known; known == name {
				break
			}
		}
	}
	return best
}

// dearest is the highest price of a token, in USD for a million; 0: none is known.
func (p Prices) dearest() (most float64) {
	for _, price := range p {
		most = max(most, price.In, price.Cached, price.Out)
	}
	return most
}

// Total is the price of all of it.
func (p Prices) Total(all []Spending) Sum {
	var sum Sum
	for _, one := range all {
		sum = sum.add(p.Sum(one.Usage, one.Model, one.Asked))
	}
	return sum
}

// Account holds what the agents of this process spend against their budgets, per
// agent, slice and run. What earlier lives of a run spent counts too, as far as
// their transcripts lie on this host. It is safe for concurrent use.
type Account struct {
	Prices Prices
	Budget Budget  // of each run
	Slice  float64 // most that one task or slice of a run may take of its Budget; 0: all of it
	Meter  *Meter  // reads what was spent before; nil: nothing was

	mu   sync.Mutex
	runs map[string]bool // those whose earlier spending is in sums
	sums map[string]Sum  // by path
}

// Client asks through to, for the owner: a task's id or a planner's path. It asks
// nothing more once a budget that covers the owner is used up: the error is a
// *BudgetError then. Urgent requests go before others.
func (a *Account) Client(to model.Client, owner string, urgent bool) model.Client {
	if a == nil || to == nil {
		return to
	}
	return &metered{account: a, to: to, owner: owner, urgent: urgent}
}

type metered struct {
	account *Account
	to      model.Client
	owner   string
	urgent  bool
}

func (m *metered) Complete(ctx context.Context, r model.Request) (model.Reply, error) {
	if err := m.account.Over(m.owner); err != nil {
		return model.Reply{}, err
	}
	r.Urgent = r.Urgent || m.urgent
	reply, err := m.to.Complete(ctx, r)
	if refused, ok := errors.AsType[*model.Error](err); ok && refused.Spent.Total() > 0 {
		return reply, errors.Join(err, m.account.Charge(m.owner, refused.Spent, r.Model))
	}
	if err != nil {
		return reply, err
	}
	return reply, m.account.Charge(m.owner, reply.Usage, reply.Model, r.Model)
}

// Charge adds what a reply cost to its owner and to everything above it, at the
// price of the first of these names that has one.
func (a *Account) Charge(owner string, u model.Usage, names ...string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.load(owner); err != nil {
		return err
	}
	a.put(owner, a.Prices.Sum(u, names...))
	return nil
}

// put adds to a path and to those above it.
func (a *Account) put(owner string, s Sum) {
	for at := owner; at != "." && at != "/" && at != ""; at = path.Dir(at) {
		a.sums[at] = a.sums[at].add(s)
	}
}

// load takes what earlier lives of the owner's run have spent.
func (a *Account) load(owner string) error {
	if a.runs == nil {
		a.runs, a.sums = map[string]bool{}, map[string]Sum{}
	}
	run := RunOf(owner)
	if a.runs[run] || a.Meter == nil {
		return nil
	}
	spent, err := a.Meter.By(run)
	if err != nil {
		return err
	}
	for _, one := range spent {
		a.put(one.Owner, a.Prices.Sum(one.Usage, one.Model, one.Asked))
	}
	a.runs[run] = true
	return nil
}

// Over is nil, or a *BudgetError that names what covers the owner and is used up. A
// nil Account has no end.
func (a *Account) Over(owner string) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.load(owner); err != nil {
		return err
	}
	run, dearest := RunOf(owner), a.Prices.dearest()
	if why := a.Budget.over(a.sums[run], dearest); why != "" {
		return &BudgetError{Path: run, Why: why}
	}
	if a.Slice <= 0 {
		return nil
	}
	most := a.Budget.share(a.Slice)
	for at := owner; strings.Contains(at, "/"); at = path.Dir(at) {
		if why := most.over(a.sums[at], dearest); why != "" {
			return &BudgetError{Path: at, Why: why}
		}
	}
	return nil
}

// Spent is what a run, a slice or a task has cost so far.
func (a *Account) Spent(owner string) (Sum, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.load(owner)
	return a.sums[owner], err
}

// Fatal reports whether no other worker and no later try would fare better.
func Fatal(err error) bool {
	if spent, ok := errors.AsType[*BudgetError](err); ok {
		return spent.Run()
	}
	fault, ok := errors.AsType[*model.Error](err)
	return ok && fault.Fatal()
}
