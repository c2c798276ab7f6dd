package hubtest

import (
	"slices"
	"strconv"
	"time"
)

func (h *Hub) issueRoutes(route func(string, func(*asked) (int, any))) {
	missing := object{"message": "Not Found"}
	route("GET /R/issues", func(a *asked) (int, any) {
		since, _ := time.Parse(time.RFC3339, a.URL.Query().Get("since")) // none: all
		list := []object{}
		for _, i := range h.issues {
			by, all := a.URL.Query().Get("creator"), a.URL.Query().Get("state") == "all"
			if (all || i.state == "open") && !i.updated.Before(since) && (by == "" || by == i.by.Login) {
				list = append(list, h.issueJSON(i))
			}
		}
		return 200, list
	})
	route("GET /R/issues/{n}/comments", func(a *asked) (int, any) {
		since, _ := time.Parse(time.RFC3339, a.URL.Query().Get("since")) // none: all
		list := []object{}
		for _, c := range h.comments {
			if strconv.Itoa(c.Number) == a.PathValue("n") && !c.Updated.Before(since) {
				list = append(list, commentJSON(c))
			}
		}
		return 200, list
	})
	route("GET /R/issues/{n}/events", func(a *asked) (int, any) {
		list := []object{}
		for _, e := range h.events {
			if strconv.Itoa(e.number) == a.PathValue("n") {
				list = append(list, object{"id": e.id, "event": "labeled", "actor": user(e.by), "label": object{"name": e.label}, "created_at": stamp(e.at)})
			}
		}
		return 200, list
	})
	route("POST /R/issues/{n}/comments", func(a *asked) (int, any) {
		i := h.find(a)
		text, _ := a.body["body"].(string)
		if i == nil || text == "" {
			return 422, object{"message": "Validation Failed"}
		}
		i.updated = h.now()
		h.emit("issue_comment", "created", i, a.by)
		return 201, commentJSON(h.comment(a.by, i.number, text))
	})
	route("PATCH /R/issues/comments/{id}", func(a *asked) (int, any) {
		for _, c := range h.comments {
			if strconv.FormatInt(c.ID, 10) == a.PathValue("id") {
				c.Body, _ = a.body["body"].(string)
				c.Updated = h.now()
				return 200, commentJSON(c)
			}
		}
		return 404, missing
	})
}

// listRoutes list pull requests.
func (h *Hub) listRoutes(route func(string, func(*asked) (int, any))) {
	missing := object{"message": "Not Found"}
	route("GET /R/pulls", func(a *asked) (int, any) {
		list := []object{}
		for _, i := range h.issues {
			if base := a.URL.Query().Get("base"); i.pull && i.state == "open" && (base == "" || base == i.base) {
				list = append(list, pullJSON(i))
			}
		}
		return 200, list
	})
	route("GET /R/pulls/{n}", func(a *asked) (int, any) {
		if i := h.find(a); i != nil && i.pull {
			return 200, pullJSON(i)
		}
		return 404, missing
	})
}

func (h *Hub) find(a *asked) *issue {
	n, err := strconv.Atoi(a.PathValue("n"))
	if err != nil || n < 1 || n > len(h.issues) {
		return nil
	}
	return h.issues[n-1]
}

func (h *Hub) issueJSON(i *issue) object {
	n := 0
	for _, c := range h.comments {
		if c.Number == i.number {
			n++
		}
	}
	labels := []object{}
	for _, l := range i.labels {
		labels = append(labels, object{"name": l})
	}
	o := object{
		"number": i.number, "title": i.title, "body": i.body, "state": i.state, "user": user(i.by),
		"labels": labels, "comments": n, "updated_at": stamp(i.updated),
	}
	if i.pull {
		o["pull_request"] = object{"url": "here"}
	}
	return o
}

func pullJSON(i *issue) object {
	here := object{"id": 1, "full_name": Owner + "/" + Name}
	head := object{"sha": i.head, "ref": "topic", "repo": nil} // a fork that was deleted
	if i.branch != "" {
		head["ref"], head["repo"] = i.branch, here
	}
	labels := []object{}
	for _, l := range i.labels {
		labels = append(labels, object{"name": l})
	}
	state := "clean"
	if i.blocked {
		state = "blocked"
	}
	return object{
		"number": i.number, "state": i.state, "draft": i.draft, "updated_at": stamp(i.updated), "user": user(i.by), "labels": labels,
		"head": head, "base": object{"ref": i.base, "repo": here}, "mergeable": nil, "mergeable_state": state, "merged": i.merged,
	}
}

func commentJSON(c *Comment) object {
	return object{"id": c.ID, "body": c.Body, "user": user(c.By), "created_at": stamp(c.Created), "updated_at": stamp(c.Updated)}
}

func (h *Hub) checkRoutes(route func(string, func(*asked) (int, any))) {
	route("GET /R/commits/{sha}/check-runs", func(a *asked) (int, any) {
		list := []object{}
		for _, c := range h.checks {
			name := a.URL.Query().Get("check_name")
			if sha := a.PathValue("sha"); (c.Head == sha || c.Among == sha) && c.State == "" && (name == "" || name == c.Name) {
				list = append(list, checkJSON(c))
			}
		}
		return 200, object{"total_count": len(list), "check_runs": page(a.to, a.Request, list)}
	})
	route("GET /R/commits/{sha}/check-suites", func(a *asked) (int, any) {
		list := []object{}
		for _, c := range h.checks {
			if c.Head == a.PathValue("sha") && c.State == "" {
				list = append(list, object{"id": c.ID, "head_sha": c.Head, "head_branch": c.Branch, "app": object{"id": c.App, "slug": c.slug()}})
			}
		}
		return 200, object{"total_count": len(list), "check_suites": page(a.to, a.Request, list)}
	})
	route("POST /R/check-runs", func(a *asked) (int, any) {
		if a.by.ID != h.robot.ID {
			return 403, object{"message": "You must authenticate via a GitHub App."}
		}
		if !fits(a.body) {
			return 422, object{"message": "Validation Failed"}
		}
		c := &Check{ID: h.next(), App: App}
		h.checks = append(h.checks, c)
		c.fill(a.body)
		return 201, checkJSON(c)
	})
	route("PATCH /R/check-runs/{id}", func(a *asked) (int, any) {
		if !fits(a.body) {
			return 422, object{"message": "Validation Failed"}
		}
		for _, c := range h.checks {
			if strconv.FormatInt(c.ID, 10) == a.PathValue("id") {
				c.fill(a.body)
				return 200, checkJSON(c)
			}
		}
		return 404, object{"message": "Not Found"}
	})
	route("GET /R/commits/{sha}/statuses", func(a *asked) (int, any) {
		list := []object{}
		for _, c := range slices.Backward(h.checks) {
			if c.Head == a.PathValue("sha") && c.State != "" {
				list = append(list, object{"id": c.ID, "context": c.Name, "state": c.State, "description": c.Title})
			}
		}
		return 200, list
	})
	route("POST /R/statuses/{sha}", func(a *asked) (int, any) {
		c := &Check{ID: h.next(), Head: a.PathValue("sha"), Writes: 1}
		c.State, _ = a.body["state"].(string)
		c.Name, _ = a.body["context"].(string)
		c.Title, _ = a.body["description"].(string)
		h.checks = append(h.checks, c)
		return 201, object{"id": c.ID, "state": c.State}
	})
}

// fits reports whether a check run keeps GitHub's limits.
func fits(body object) bool {
	output, _ := body["output"].(object)
	notes, _ := output["annotations"].([]any)
	summary, _ := output["summary"].(string)
	text, _ := output["text"].(string)
	actions, _ := body["actions"].([]any)
	return len(notes) <= 50 && len(summary) <= 65535 && len(text) <= 65535 && len(actions) <= 3
}

func (c *Check) fill(body object) {
	c.Writes++
	set := func(field *string, from object, key string) {
		if v, ok := from[key].(string); ok {
			*field = v
		}
	}
	set(&c.Name, body, "name")
	set(&c.Head, body, "head_sha")
	set(&c.External, body, "external_id")
	set(&c.Status, body, "status")
	set(&c.Conclusion, body, "conclusion")
	if output, ok := body["output"].(object); ok {
		set(&c.Title, output, "title")
		set(&c.Summary, output, "summary")
		set(&c.Text, output, "text")
		if notes, ok := output["annotations"].([]any); ok {
			c.Notes += len(notes)
		}
	}
}

// slug is what the App of a run is called.
func (c *Check) slug() string {
	switch {
	case c.App == App:
		return Slug
	case c.Branch != "":
		return "github-actions"
	}
	return "another"
}

func checkJSON(c *Check) object {
	return object{
		"id": c.ID, "name": c.Name, "head_sha": c.Head, "external_id": c.External, "status": c.Status,
		"conclusion": c.Conclusion, "app": object{"id": c.App, "slug": c.slug()}, "check_suite": object{"id": c.ID},
		"output": object{"title": c.Title, "summary": c.Summary},
	}
}
