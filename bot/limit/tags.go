package limit

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
)

// Bounds of what is kept to be compared.
const (
	maxTagged     = 1000
	maxTaggedBody = 1 << 20
)

// Tags keeps the answers that GitHub gave a tag to, and asks with the tag: an answer
// that did not change costs nothing of the rate. Safe for concurrent use.
type Tags struct {
	next http.RoundTripper

	mu    sync.Mutex
	known map[string]tagged
	order []string
}

type tagged struct {
	tag    string
	header http.Header
	body   []byte
}

// NewTags is a transport before another one.
func NewTags(next http.RoundTripper) *Tags {
	return &Tags{next: next, known: map[string]tagged{}}
}

// RoundTrip asks with the tag that is known, and gives the kept answer for 304.
func (e *Tags) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		return e.next.RoundTrip(r)
	}
	// An answer is for one asker: tokens change within the hour.
	key := r.Header.Get("Accept") + " " + r.URL.String()
	e.mu.Lock()
	had, ok := e.known[key]
	e.mu.Unlock()
	if ok {
		r = r.Clone(r.Context())
		r.Header.Set("If-None-Match", had.tag)
	}
	resp, err := e.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if ok && resp.StatusCode == http.StatusNotModified {
		return had.again(resp), resp.Body.Close()
	}
	if tag := resp.Header.Get("ETag"); resp.StatusCode == http.StatusOK && tag != "" && resp.ContentLength <= maxTaggedBody {
		return resp, e.keep(key, tag, resp)
	}
	return resp, nil
}

// again is the kept answer with what the newer one says of limits and time.
func (t tagged) again(newer *http.Response) *http.Response {
	header := t.header.Clone()
	maps.Copy(header, newer.Header)
	header.Set("Content-Length", fmt.Sprint(len(t.body)))
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: newer.Proto, ProtoMajor: newer.ProtoMajor, ProtoMinor: newer.ProtoMinor,
		Header: header, Body: io.NopCloser(bytes.NewReader(t.body)), ContentLength: int64(len(t.body)), Request: newer.Request,
	}
}

func (e *Tags) keep(key, tag string, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTaggedBody+1))
	if err != nil {
		_ = resp.Body.Close() // the error of the read says more
		return fmt.Errorf("read an answer: %w", err)
	}
	if len(body) > maxTaggedBody { // not known beforehand: give it on, unkept
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
		return nil
	}
	err = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, had := e.known[key]; !had {
		e.order = append(e.order, key)
	}
	e.known[key] = tagged{tag, resp.Header.Clone(), body}
	if len(e.order) > maxTagged {
		delete(e.known, e.order[0])
		e.order = e.order[1:]
	}
	return err
}
