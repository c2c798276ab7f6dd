package hubtest

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// manifest is an App that somebody is making.
type manifest struct {
	URL  string `json:"redirect_url"`
	Hook struct {
		URL string `json:"url"`
	} `json:"hook_attributes"`
	Permissions map[string]string `json:"default_permissions"`
}

// makeApp is GitHub's page that makes an App of a manifest, and sends the browser back.
func (h *Hub) makeApp(w http.ResponseWriter, r *http.Request) {
	var m manifest
	if err := json.Unmarshal([]byte(r.FormValue("manifest")), &m); err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	back, err := url.Parse(m.URL)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	code := rand.Text()
	h.mu.Lock()
	h.codes[code] = m
	h.mu.Unlock()
	back.RawQuery = url.Values{"code": {code}, "state": {r.URL.Query().Get("state")}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// SignIn is who GitHub's page signs in from now on.
func (h *Hub) SignIn(login string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.visitor = login
}

// oauth is GitHub's page that asks whether an App may know who one is, and what it
// exchanges for the answer.
func (h *Hub) oauth(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	login := h.visitor
	h.mu.Unlock()
	if r.Method == http.MethodPost {
		send(w, http.StatusOK, object{"access_token": r.FormValue("code") + "-token", "token_type": "bearer"})
		return
	}
	back, err := url.Parse(r.URL.Query().Get("redirect_uri"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	back.RawQuery = url.Values{"code": {login}, "state": {r.URL.Query().Get("state")}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// userRoutes are what people do in a browser, and what a new App asks first.
func (h *Hub) userRoutes(route func(string, func(*asked) (int, any))) {
	invalid := object{"message": "Validation Failed"}
	h.hookRoutes(route)
	route("POST /app-manifests/{code}/conversions", func(a *asked) (int, any) {
		m, ok := h.codes[a.PathValue("code")]
		if !ok {
			return 404, object{"message": "Not Found"}
		}
		delete(h.codes, a.PathValue("code"))
		h.hook.url, h.hook.secret, h.rights = m.Hook.URL, rand.Text(), m.Permissions
		return 201, object{"id": App, "slug": Slug, "client_id": "Iv1.hubtest", "client_secret": "hush", "pem": h.Key(), "webhook_secret": h.hook.secret, "html_url": h.http.URL + "/apps/" + Slug}
	})
	route("GET /app/installations", func(*asked) (int, any) {
		if h.gone == "deleted" {
			return 200, []object{}
		}
		return 200, []object{{"id": Installation, "permissions": h.rights}}
	})
	route("GET /installation/repositories", func(*asked) (int, any) {
		return 200, object{"total_count": 1, "repositories": []object{h.repository()}}
	})
	route("POST /R/issues", func(a *asked) (int, any) {
		i := &issue{by: a.by}
		i.title, _ = a.body["title"].(string)
		i.body, _ = a.body["body"].(string)
		h.add(i)
		h.emit("issues", "opened", i, a.by)
		return 201, h.issueJSON(i)
	})
	route("POST /R/issues/{n}/labels", func(a *asked) (int, any) {
		i := h.find(a)
		if i == nil || a.by.Permission == "read" || a.by.Permission == "none" {
			return 404, object{"message": "Not Found"}
		}
		names, _ := a.body["labels"].([]any)
		list := []object{}
		for _, one := range names {
			name, _ := one.(string)
			i.labels = append(i.labels, name)
			h.events = append(h.events, event{h.next(), i.number, a.by, name, h.now()})
			h.emit("issues", "labeled", i, a.by)
			list = append(list, object{"name": name})
		}
		i.updated = h.now()
		return 200, list
	})
	route("POST /R/pulls", func(a *asked) (int, any) {
		branch, _ := a.body["head"].(string)
		base, _ := a.body["base"].(string)
		head, ok := h.git(a.Context(), "rev-parse", "--verify", "refs/heads/"+branch)
		if !ok || base == "" {
			return 422, invalid
		}
		i := &issue{by: a.by, pull: true, head: head, base: base, branch: branch}
		i.title, _ = a.body["title"].(string)
		h.add(i)
		h.refs[branch] = head
		h.point(i.number, head)
		h.emit("pull_request", "opened", i, a.by)
		return 201, pullJSON(i)
	})
}

func (h *Hub) repository() object {
	name := Name
	if h.alias != "" {
		name = h.alias
	}
	return object{
		"id": 1, "full_name": Owner + "/" + name, "name": name, "owner": object{"login": Owner}, "default_branch": "main",
		"clone_url": h.http.URL + "/" + Owner + "/" + name + ".git", "archived": h.archived, "disabled": false, "private": h.private,
	}
}

// pushed brings pull requests in step with what a push moved: new heads, and those
// that their base branch contains now, which GitHub shows as merged.
func (h *Hub) pushed(by Person) {
	ctx := h.tb.Context()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.emit("push", "", nil, by)
	for _, i := range h.issues {
		if !i.pull || i.state != "open" {
			continue
		}
		if at, ok := h.git(ctx, "rev-parse", "--verify", "refs/heads/"+i.branch); ok && i.branch != "" && at != i.head {
			i.head, i.updated, h.refs[i.branch] = at, h.now(), at
			h.point(i.number, at)
			h.emit("pull_request", "synchronize", i, by)
		}
		if _, within := h.git(ctx, "merge-base", "--is-ancestor", i.head, "refs/heads/"+i.base); within {
			i.state, i.merged, i.updated = "closed", true, h.now()
			h.emit("pull_request", "closed", i, by)
		}
	}
}

// Merged reports whether GitHub shows a pull request as merged.
func (h *Hub) Merged(number int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.issues[number-1].merged
}

// Release is one release of the repository, or a deployment's status.
type Release struct{ Tag, Name, Body, State string }

// releaseRoutes keep releases and deployments, as far as an App makes them.
func (h *Hub) releaseRoutes(route func(string, func(*asked) (int, any))) {
	text := func(o object, key string) string {
		s, _ := o[key].(string)
		return s
	}
	route("GET /R/releases/tags/{tag...}", func(a *asked) (int, any) {
		for _, r := range h.releases {
			if r.State == "" && r.Tag == a.PathValue("tag") {
				return 200, object{"id": 1, "tag_name": r.Tag}
			}
		}
		return 404, object{"message": "Not Found"}
	})
	route("POST /R/releases", func(a *asked) (int, any) {
		tag := text(a.body, "tag_name")
		if slices.ContainsFunc(h.releases, func(r Release) bool { return r.State == "" && r.Tag == tag }) {
			return 422, object{"message": "Validation Failed", "errors": []object{{"code": "already_exists", "field": "tag_name"}}}
		}
		h.releases = append(h.releases, Release{Tag: tag, Name: text(a.body, "name"), Body: text(a.body, "body")})
		return 201, object{"id": h.next(), "tag_name": tag}
	})
	route("GET /R/deployments", func(a *asked) (int, any) {
		list := []object{}
		for k, r := range h.releases {
			if r.State != "" && r.Tag == a.URL.Query().Get("sha") {
				list = append(list, object{"id": k + 1, "sha": r.Tag})
			}
		}
		return 200, list
	})
	route("POST /R/deployments", func(a *asked) (int, any) {
		h.releases = append(h.releases, Release{Tag: text(a.body, "ref"), Name: text(a.body, "environment"), State: "pending"})
		return 201, object{"id": len(h.releases), "sha": text(a.body, "ref")}
	})
	route("POST /R/deployments/{n}/statuses", func(a *asked) (int, any) {
		for k := range h.releases {
			if a.PathValue("n") == strconv.Itoa(k+1) {
				h.releases[k].State = text(a.body, "state")
				return 201, object{"id": h.next(), "state": h.releases[k].State}
			}
		}
		return 404, object{"message": "Not Found"}
	})
	route("POST /R/dispatches", func(a *asked) (int, any) {
		sent, _ := a.body["client_payload"].(object)
		h.dispatched = append(h.dispatched, text(a.body, "event_type")+" "+text(sent, "commit"))
		return 204, nil
	})
	route("PATCH /R/issues/{n}", func(a *asked) (int, any) {
		i := h.find(a)
		if i == nil {
			return 404, object{"message": "Not Found"}
		}
		if s := text(a.body, "state"); s != "" {
			i.state = s
		}
		if s := text(a.body, "body"); s != "" {
			i.body = s
		}
		i.updated = h.now()
		return 200, h.issueJSON(i)
	})
}

// Releases are those that were made, in order.
func (h *Hub) Releases() []Release {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.releases)
}
