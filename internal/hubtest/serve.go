package hubtest

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

type object = map[string]any

type asked struct {
	*http.Request
	by   Person
	body object
	to   http.ResponseWriter
}

// handler answers as GitHub does. A route gives a status and what is sent as JSON.
func (h *Hub) handler() http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, f func(*asked) (int, any)) {
		method, path, _ := strings.Cut(pattern, " ")
		path = strings.Replace(path, "/R/", "/repos/"+Owner+"/"+Name+"/", 1)
		mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) {
			a := &asked{Request: r, body: object{}, to: w}
			data, err := io.ReadAll(r.Body)
			if err != nil {
				return // who asked has gone
			}
			_ = json.Unmarshal(data, &a.body) // an empty body is an empty object
			if err := h.takes.Check(r.Method, r.URL.Path, r.URL.Query(), data); err != nil {
				h.tb.Errorf("a request that GitHub does not describe: %v", err)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			var ok bool
			if a.by, ok = h.identify(r); !ok && !strings.HasPrefix(path, "/app-manifests/") {
				send(w, http.StatusUnauthorized, object{"message": "Bad credentials"})
				return
			}
			if no := h.forbidden(a); no != nil {
				send(w, http.StatusForbidden, no)
				return
			}
			status, v := f(a)
			if list, ok := v.([]object); ok {
				v = page(w, r, list)
			}
			if status == http.StatusOK && r.Method == http.MethodGet && h.unchanged(w, r, v) {
				return
			}
			send(w, status, v)
		})
	}
	h.appRoutes(route)
	h.issueRoutes(route)
	h.listRoutes(route)
	h.checkRoutes(route)
	h.ruleRoutes(route)
	h.pullRoutes(route)
	h.branchRoutes(route)
	h.userRoutes(route)
	h.releaseRoutes(route)
	mux.HandleFunc("POST /settings/apps/new", h.makeApp)
	mux.HandleFunc("/login/oauth/", h.oauth)
	mux.HandleFunc("/"+Owner+"/"+Name+".git/", h.serveGit)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		r.URL.Path = h.plain(r.URL.Path)
		call := r.Method + " " + r.URL.Path
		h.calls = append(h.calls, call)
		now := h.now()
		fault := h.strike(call, r)
		renamed := h.renamed
		h.mu.Unlock()
		defer h.tell()
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		w.Header().Set("X-RateLimit-Remaining", "4999") // it counts nobody's
		if rest, old := strings.CutPrefix(r.URL.Path, "/repos/"+Owner+"/"+Name+"/"); old && renamed && fault == nil {
			status := http.StatusTemporaryRedirect
			if r.Method == http.MethodGet {
				status = http.StatusMovedPermanently
			}
			http.Redirect(w, r, (&url.URL{Path: "/repositories/1/" + rest, RawQuery: r.URL.RawQuery}).String(), status)
			return
		}
		if rest, id := strings.CutPrefix(r.URL.Path, "/repositories/1/"); id {
			r.URL.Path = "/repos/" + Owner + "/" + Name + "/" + rest
		}
		if fault == nil {
			mux.ServeHTTP(w, r)
			return
		}
		h.spoil(w, r, mux, *fault, now)
	})
}

// plain is a path without an Enterprise server's prefix and without the new name of a
// repository that was renamed. h.mu is held.
func (h *Hub) plain(path string) string {
	path = strings.TrimPrefix(path, "/api/v3")
	if h.alias == "" {
		return path
	}
	path = strings.Replace(path, "/"+Owner+"/"+h.alias+".git/", "/"+Owner+"/"+Name+".git/", 1)
	return strings.Replace(path, "/repos/"+Owner+"/"+h.alias+"/", "/repositories/1/", 1)
}

func (h *Hub) tell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.news != nil {
		close(h.news)
		h.news = nil
	}
}

func (h *Hub) strike(call string, r *http.Request) *Fault {
	for _, f := range h.faults {
		if f.Times > 0 && regexp.MustCompile(f.Match).MatchString(call) && (!f.Ours || !strings.HasSuffix(r.Header.Get("Authorization"), "-token")) {
			if f.Skip > 0 {
				f.Skip--
				continue
			}
			f.Times--
			return f
		}
	}
	return nil
}

// spoil answers a request that a fault struck.
func (h *Hub) spoil(w http.ResponseWriter, r *http.Request, mux http.Handler, f Fault, now time.Time) {
	if f.Retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.Retry))
	}
	switch f.Kind {
	case "lost-answer":
		mux.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case "cut":
		panic(http.ErrAbortHandler)
	case "secondary-limit":
		send(w, http.StatusForbidden, object{"message": "You have exceeded a secondary rate limit.", "documentation_url": "https://docs.github.com/a-new-page"})
	case "primary-limit":
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(now.Add(10*time.Minute).Unix(), 10))
		send(w, http.StatusForbidden, object{"message": "API rate limit exceeded"})
	case "unauthorized":
		send(w, http.StatusUnauthorized, object{"message": "Bad credentials"})
	case "malformed":
		send(w, http.StatusOK, "not what was asked for")
	default:
		send(w, http.StatusServiceUnavailable, object{"message": "unavailable"})
	}
}

// unchanged gives an answer its tag, and answers 304 to who has it already: that is
// told as "304 GET /path", for it costs nothing of the rate. h.mu is held.
func (h *Hub) unchanged(w http.ResponseWriter, r *http.Request, v any) bool {
	data, err := json.Marshal(v)
	if err != nil {
		h.tb.Errorf("encode an answer: %v", err)
		return false
	}
	tag := fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256(append(data, w.Header().Get("Link")...))))
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") != tag {
		return false
	}
	w.WriteHeader(http.StatusNotModified)
	call := r.Method + " " + r.URL.Path
	for i, c := range slices.Backward(h.calls) {
		if c == call {
			h.calls[i] = "304 " + call
			break
		}
	}
	return true
}

func send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if status == http.StatusNoContent {
		return
	}
	_ = json.NewEncoder(w).Encode(v) // the reader may have gone
}

func page(w http.ResponseWriter, r *http.Request, list []object) []object {
	size, err := strconv.Atoi(r.URL.Query().Get("per_page"))
	if err != nil {
		size = 30
	}
	n, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil {
		n = 1
	}
	from := min((n-1)*size, len(list))
	to := min(from+size, len(list))
	if to < len(list) {
		q := r.URL.Query()
		q.Set("page", strconv.Itoa(n+1))
		w.Header().Set("Link", fmt.Sprintf(`<http://%s%s?%s>; rel="next"`, r.Host, r.URL.Path, q.Encode()))
	}
	return append([]object{}, list[from:to]...)
}

// identify reads who asks: the App by its signature, its installation or a user by token.
func (h *Hub) identify(r *http.Request) (Person, bool) {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if login, ok := strings.CutSuffix(token, "-token"); ok {
		if p, known := h.people[login]; known {
			return p, true
		}
	}
	switch {
	case token == Token:
		return h.people["robot"], true
	case token == h.token:
		return h.robot, true
	case strings.Count(token, ".") == 2:
		cut := strings.LastIndexByte(token, '.')
		sig, err := base64.RawURLEncoding.DecodeString(token[cut+1:])
		sum := sha256.Sum256([]byte(token[:cut]))
		return Person{Login: Slug}, err == nil && rsa.VerifyPKCS1v15(&h.key.PublicKey, crypto.SHA256, sum[:], sig) == nil
	}
	return Person{}, false
}

func user(p Person) object { return object{"login": p.Login, "id": p.ID, "type": p.Type} }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (h *Hub) appRoutes(route func(string, func(*asked) (int, any))) {
	route("GET /app", func(*asked) (int, any) { return 200, object{"id": App, "slug": Slug} })
	route("GET /R/installation", func(*asked) (int, any) {
		if h.gone == "deleted" {
			return 404, object{"message": "Not Found"}
		}
		return 200, object{"id": Installation}
	})
	route("GET /app/installations/{id}", func(*asked) (int, any) {
		o := object{"id": Installation, "permissions": h.rights, "events": h.subscribed}
		switch h.gone {
		case "suspended":
			o["suspended_at"] = stamp(h.now())
		case "deleted":
			return 404, object{"message": "Not Found"}
		}
		return 200, o
	})
	route("GET /users/{login}", func(a *asked) (int, any) {
		if p, ok := h.people[a.PathValue("login")]; ok {
			return 200, user(p)
		}
		return 404, object{"message": "Not Found"}
	})
	route("POST /app/installations/{id}/access_tokens", func(a *asked) (int, any) {
		if h.gone == "suspended" {
			return 403, object{"message": "This installation has been suspended"}
		}
		if h.gone == "deleted" || a.PathValue("id") != strconv.Itoa(Installation) {
			return 404, object{"message": "Not Found"}
		}
		h.minted = append(h.minted, fmt.Sprint(a.body["repositories"], " ", a.body["permissions"]))
		return 201, object{"token": h.token, "expires_at": "2099-01-01T00:00:00Z"}
	})
	route("GET /user", func(a *asked) (int, any) { return 200, user(a.by) })
	route("GET /R/collaborators/{login}/permission", func(a *asked) (int, any) {
		p, ok := h.people[a.PathValue("login")]
		if !ok {
			return 404, object{"message": "Not Found"}
		}
		level := map[string]string{"maintain": "write", "triage": "read"}[p.Permission]
		if level == "" {
			level = p.Permission
		}
		return 200, object{"permission": level, "role_name": p.Permission, "user": user(p)}
	})
}
