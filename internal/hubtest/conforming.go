package hubtest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"greenward/internal/hubtest/conform"
)

// Front stands before another GitHub at target until the test ends, and fails the test
// for every request to its REST interface that GitHub's description does not have. It
// returns its own address. Pages, git and the double's own controls pass unread.
func Front(tb testing.TB, target string) string {
	tb.Helper()
	takes, err := conform.Load()
	if err != nil {
		tb.Fatal(err)
	}
	to, err := url.Parse(target)
	if err != nil {
		tb.Fatal(err)
	}
	pass := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path, api := strings.CutPrefix(r.URL.Path, "/api/v3"); api {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // who asked has gone
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			if err := takes.Check(r.Method, path, r.URL.Query(), body); err != nil {
				tb.Errorf("a request that GitHub does not describe: %v", err)
			}
		}
		pass.ServeHTTP(w, r)
	}))
	tb.Cleanup(server.Close)
	return server.URL
}
