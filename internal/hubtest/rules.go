package hubtest

import (
	"slices"
	"strconv"
)

// ruleRoutes answer what a branch demands, pullRoutes who reviewed, and what changes
// a pull request or a branch.
func (h *Hub) ruleRoutes(route func(string, func(*asked) (int, any))) {
	route("GET /R/rules/branches/{branch}", func(a *asked) (int, any) { return 200, h.rules[a.PathValue("branch")].list() })
	route("GET /R/rulesets/{id}", func(*asked) (int, any) {
		bypass := "never"
		for _, r := range h.rules {
			if r.Bypass {
				bypass = "always"
			}
		}
		return 200, object{"id": 1, "current_user_can_bypass": bypass}
	})
	route("GET /R/branches/{branch}", func(a *asked) (int, any) {
		r := h.rules[a.PathValue("branch")]
		return 200, object{"name": a.PathValue("branch"), "protected": r.Protected != nil, "protection": object{
			"enabled": r.Protected != nil, "required_status_checks": object{"enforcement_level": "everyone", "contexts": r.Protected},
		}}
	})
	route("GET /R/branches/{branch}/protection", func(a *asked) (int, any) {
		r := h.rules[a.PathValue("branch")]
		switch {
		case r.Hidden:
			return 403, object{"message": "Resource not accessible by integration"}
		case r.Protected == nil:
			return 404, object{"message": "Branch not protected"}
		}
		o := object{"required_status_checks": object{"strict": false, "contexts": r.Protected}}
		if r.ProtectedReview > 0 {
			o["required_pull_request_reviews"] = object{"required_approving_review_count": r.ProtectedReview, "dismiss_stale_reviews": r.DropStale}
		}
		return 200, o
	})
}

func (h *Hub) pullRoutes(route func(string, func(*asked) (int, any))) {
	route("GET /R/pulls/{n}/reviews", func(a *asked) (int, any) {
		list := []object{}
		for _, r := range h.reviews {
			if strconv.Itoa(r.Number) == a.PathValue("n") {
				one := object{"id": r.ID, "user": user(r.By), "state": r.State, "commit_id": r.Head}
				if _, there := h.people[r.By.Login]; !there {
					one["user"] = nil
				}
				list = append(list, one)
			}
		}
		return 200, list
	})
	route("GET /R/pulls/{n}/files", func(a *asked) (int, any) {
		list := []object{}
		for _, name := range h.find(a).files {
			list = append(list, object{"filename": name, "status": "modified"})
		}
		return 200, list
	})
	route("PATCH /R/pulls/{n}", func(a *asked) (int, any) {
		i := h.find(a)
		if i == nil || i.state == "closed" {
			return 422, object{"message": "Validation Failed"}
		}
		if base, ok := a.body["base"].(string); ok {
			i.base = base
		}
		if state, ok := a.body["state"].(string); ok {
			i.state = state
		}
		i.updated = h.now()
		return 200, pullJSON(i)
	})
}

func (h *Hub) branchRoutes(route func(string, func(*asked) (int, any))) {
	missing := object{"message": "Not Found"}
	route("GET /R/git/ref/heads/{branch}", func(a *asked) (int, any) {
		if sha := h.refs[a.PathValue("branch")]; sha != "" {
			return 200, object{"ref": "refs/heads/" + a.PathValue("branch"), "object": object{"sha": sha, "type": "commit"}}
		}
		return 404, missing
	})
	route("DELETE /R/git/refs/heads/{branch}", func(a *asked) (int, any) {
		name := a.PathValue("branch")
		if h.refs[name] == "" {
			return 422, object{"message": "Reference does not exist"}
		}
		delete(h.refs, name)
		for _, i := range h.issues { // as GitHub does, for good
			if i.pull && i.state == "open" && i.base == name {
				i.state = "closed"
			}
		}
		return 204, nil
	})
	route("GET /R/commits/{sha}/status", func(a *asked) (int, any) {
		list, seen := []object{}, map[string]bool{}
		for _, c := range slices.Backward(h.checks) {
			if c.Head == a.PathValue("sha") && c.State != "" && !seen[c.Name] {
				seen[c.Name] = true
				list = append(list, object{"id": c.ID, "context": c.Name, "state": c.State})
			}
		}
		return 200, object{"state": "pending", "statuses": page(a.to, a.Request, list), "total_count": len(list)}
	})
	route("GET /R/check-suites/{id}", func(a *asked) (int, any) {
		for _, c := range h.checks {
			if strconv.FormatInt(c.ID, 10) == a.PathValue("id") {
				return 200, object{"id": c.ID, "conclusion": c.Suite}
			}
		}
		return 404, missing
	})
}

// list is the rules of a branch as a ruleset shows them.
func (r Rules) list() []object {
	list := []object{}
	add := func(kind string, parameters object) {
		list = append(list, object{"type": kind, "ruleset_id": 1, "ruleset_source": "acme/widgets", "ruleset_source_type": "Repository", "parameters": parameters})
	}
	if len(r.Checks) > 0 {
		checks := []object{}
		for _, name := range r.Checks {
			checks = append(checks, object{"context": name})
		}
		add("required_status_checks", object{"required_status_checks": checks, "strict_required_status_checks_policy": false})
	}
	if r.Reviews > 0 {
		add("pull_request", object{"required_approving_review_count": r.Reviews, "dismiss_stale_reviews_on_push": r.DropStale})
	}
	if r.MergeQueue {
		add("merge_queue", object{"merge_method": "MERGE"})
	}
	add("a_rule_of_the_future", object{"x": 1})
	return list
}
