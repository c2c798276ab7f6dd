package workflows

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"greenward/internal/git"
)

// reach is how the rounds of an exchange fare. It is guarded by the exchange's mutex.
type reach struct {
	asked time.Time // when the round that still goes on began
	last  time.Time // when one ended well
	lost  time.Time // since when they end badly
	what  string    // is not done then
}

// quietFor is how long a round may go on before the remote counts as silent: one that
// comes next is due.
const quietFor = 15 * time.Second

// begin and end frame one round.
func (x *Exchange) begin() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reach.asked = x.Now()
}

func (x *Exchange) end(taken, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := &x.reach
	began := r.asked
	r.asked = time.Time{}
	if taken == nil && err == nil {
		r.last, r.lost, r.what = x.Now(), time.Time{}, ""
		return
	}
	if r.lost.IsZero() {
		r.lost = began
	}
	r.what = "is not reached"
	if taken == nil {
		r.what = "does not take what is pushed"
	}
	if refused, ok := errors.AsType[*git.PushError](err); ok && taken == nil {
		r.what = "refuses " + fmt.Sprint(refused.Refs)
	}
}

// Ready says which remote is out of step, and since when; nil: it answered the last
// round. The hub works on without it, so such an error is Degraded.
func (x *Exchange) Ready(context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	r, what := x.reach, x.reach.what
	since := r.lost
	if since.IsZero() && !r.asked.IsZero() && x.Now().Sub(r.asked) > quietFor {
		since, what = r.asked, "does not answer"
	}
	if since.IsZero() {
		return nil
	}
	known := "it was not reached before"
	if !r.last.IsZero() {
		known = "it was last in step at " + r.last.UTC().Format(time.RFC3339)
	}
	return outOfStepError(fmt.Sprintf("%s %s since %s; %s", withoutPassword(x.Hub.Upstream()), what, since.UTC().Format(time.RFC3339), known))
}

// outOfStepError is why a remote is not followed.
type outOfStepError string

// Error says it.
func (o outOfStepError) Error() string { return string(o) }

// Degraded reports that the hub works on.
func (o outOfStepError) Degraded() bool { return true }

// withoutPassword is an address that may be shown: a token may stand for the user, too.
func withoutPassword(address string) string {
	if u, err := url.Parse(address); err == nil && u.User != nil && u.Scheme != "ssh" {
		u.User = nil
		return u.String()
	}
	return address
}
