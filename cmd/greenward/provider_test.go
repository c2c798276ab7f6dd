package main

import (
	"net/http"
	"testing"

	"greenward/internal/proc"
)

func TestProxies(t *testing.T) {
	env := []string{"HTTPS_PROXY=http://proxy:3128", "http_proxy=other:8080", "NO_PROXY=.internal, example.com:8443,10.0.0.0/8"}
	for target, want := range map[string]string{
		"https://api.openai.com/v1":  "http://proxy:3128",
		"http://models.lan/v1":       "http://other:8080",
		"http://127.0.0.1:8000/v1":   "",
		"http://localhost/v1":        "",
		"https://a.internal/v1":      "",
		"https://notinternal/v1":     "http://proxy:3128",
		"https://10.1.2.3/v1":        "",
		"https://example.com:8443/":  "",
		"https://example.com/":       "http://proxy:3128",
		"https://x.example.com:8443": "",
	} {
		way, err := proxies(proc.NewHost(env))
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if u, err := way(r); err != nil {
			t.Error(err)
		} else if u != nil {
			got = u.String()
		}
		if got != want {
			t.Errorf("%s goes through %q, want %q", target, got, want)
		}
	}
	if _, err := proxies(proc.NewHost([]string{"HTTPS_PROXY=http://"})); err == nil {
		t.Error("no address is taken for one")
	}
	for _, env := range [][]string{nil, {"HTTP_PROXY=p:1", "NO_PROXY=*"}} {
		way, err := proxies(proc.NewHost(env))
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if u, err := way(r); u != nil || err != nil {
			t.Errorf("%v: %v, %v", env, u, err)
		}
	}
}
