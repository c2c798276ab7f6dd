// Package forge reads GitHub: one repository, whole lists, and what an error means for
// the requests that follow.
//
// It owns questions and the meaning of answers. It decides nothing, writes nothing and
// keeps nothing between two questions.
package forge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v66/github"
)

// Repo is one repository, asked with some credentials.
type Repo struct {
	*github.Client
	Owner, Name string
}

// Read reads what go-github has no method for, or a narrower one.
func (r Repo) Read(ctx context.Context, path string, v any) (*github.Response, error) {
	req, err := r.NewRequest(http.MethodGet, path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask for %s: %w", path, err)
	}
	return r.Do(ctx, req, v)
}

// maxPages bounds each listing at 100 a page.
const maxPages = 30

// Listing reads all pages. The response is that of the first one.
func Listing[T any](page func(github.ListOptions) ([]T, *github.Response, error)) ([]T, *github.Response, error) {
	var all []T
	var first *github.Response
	opts := github.ListOptions{PerPage: 100}
	for range maxPages {
		part, resp, err := page(opts)
		if err != nil {
			return nil, resp, err
		}
		if all = append(all, part...); first == nil {
			first = resp
		}
		if resp.NextPage == 0 {
			return all, first, nil
		}
		opts.Page = resp.NextPage
	}
	return nil, first, fmt.Errorf("read a list: more than %d pages", maxPages)
}

// Clock is when GitHub gave an answer, by its own clock, in whole seconds.
func Clock(resp *github.Response) (time.Time, error) {
	t, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("read the date of an answer: %w", err)
	}
	return t, nil
}

// Absent reports whether GitHub does not know what was asked for.
func Absent(resp *github.Response) bool {
	return resp != nil && (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusUnprocessableEntity)
}

// Refused reports whether GitHub does not let us see it.
func Refused(resp *github.Response) bool {
	return resp != nil && resp.StatusCode == http.StatusForbidden
}

// Trouble is what an error of the API means for the requests that follow.
type Trouble struct {
	Limited bool
	Wait    time.Duration // 0: the answer named none
	Stale   bool          // the credentials were refused
	Refused bool          // what was asked for is not permitted
}

// TroubleOf reads an error. The zero value: it says nothing about other requests.
func TroubleOf(err error) Trouble {
	var resp *http.Response
	text := ""
	if e, ok := errors.AsType[*github.RateLimitError](err); ok {
		return Trouble{Limited: true, Wait: waitOf(e.Response)}
	}
	if e, ok := errors.AsType[*github.AbuseRateLimitError](err); ok {
		return Trouble{Limited: true, Wait: waitOf(e.Response)}
	}
	if e, ok := errors.AsType[*github.ErrorResponse](err); ok {
		resp, text = e.Response, e.Message
	} else if e, ok := errors.AsType[*ghinstallation.HTTPError](err); ok {
		if resp = e.Response; resp != nil && resp.StatusCode == http.StatusUnprocessableEntity {
			return Trouble{Stale: true} // the token would carry what its owner grants no more
		}
	}
	if resp == nil {
		return Trouble{}
	}
	refused := resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusTooManyRequests
	// The text is GitHub's only sign of some secondary limits.
	limited := resp.StatusCode == http.StatusTooManyRequests ||
		refused && (resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-RateLimit-Remaining") == "0" || strings.Contains(text, "secondary rate"))
	return Trouble{Limited: limited, Wait: waitOf(resp), Stale: resp.StatusCode == http.StatusUnauthorized, Refused: refused && !limited}
}

// waitOf reads how long GitHub wants us to wait, free of our clock's skew.
func waitOf(resp *http.Response) time.Duration {
	if resp == nil {
		return 0
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s >= 0 {
		return time.Duration(s+1) * time.Second
	}
	reset, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64)
	now, err2 := http.ParseTime(resp.Header.Get("Date"))
	if err != nil || err2 != nil || resp.Header.Get("X-RateLimit-Remaining") != "0" {
		return 0
	}
	return max(time.Unix(reset, 0).Sub(now), 0) + time.Second
}
