package hubtest

import (
	"slices"
	"strings"
	"time"
)

// Demand sets what a branch demands.
func (h *Hub) Demand(branch string, r Rules) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rules[branch] = r
}

// Review adds a review of a pull request's head and returns its id.
func (h *Hub) Review(by Person, number int, state string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &Review{ID: h.next(), Number: number, By: by, State: state, Head: h.issues[number-1].head}
	h.reviews = append(h.reviews, r)
	h.issues[number-1].updated = h.now()
	return r.ID
}

// Dismiss takes a review back.
func (h *Hub) Dismiss(id int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.reviews {
		if r.ID == id {
			r.State = "DISMISSED"
		}
	}
}

// Grant sets what the installation may: a permission's name and read, write or "".
func (h *Hub) Grant(permission, level string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.rights, permission)
	if level != "" {
		h.rights[permission] = level
	}
}

// Installed sets how the installation stands: "", suspended or deleted.
func (h *Hub) Installed(state string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = state
	h.emit("installation", "changed", nil, h.robot)
}

// Files sets which files a pull request changes, for the listing of them.
func (h *Hub) Files(number int, names ...string) {
	h.change(number, func(i *issue) { i.files = names })
}

// Show makes the API tell another head than git has.
func (h *Hub) Show(number int, head string) {
	h.change(number, func(i *issue) { i.head = head })
}

// Touch sets when GitHub says that something changed last.
func (h *Hub) Touch(number int, at time.Time) {
	h.change(number, func(*issue) {})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.issues[number-1].updated = at
}

// Reopen is the opposite of Close.
func (h *Hub) Reopen(number int) { h.change(number, func(i *issue) { i.state = "open" }) }

// Dispatched are the runs that the App asked for: event and commit.
func (h *Hub) Dispatched() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.dispatched)
}

// Archive makes the repository read-only, or ends that.
func (h *Hub) Archive(archived bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.archived = archived
}

// Rename gives the repository another name: requests under the old one are redirected.
func (h *Hub) Rename() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renamed = true
}

// Known says what the repository's new name is: requests under it are answered.
func (h *Hub) Known(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alias = name
}

// Private makes the repository private, or public, and tells the App.
func (h *Hub) Private(private bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.private = private
	h.emit("repository", map[bool]string{true: "privatized", false: "publicized"}[private], nil, h.robot)
}

// forbidden is why GitHub would not let the App do what it asks for, or nil. h.mu is held.
func (h *Hub) forbidden(a *asked) object {
	reads := a.Method == "GET" || !strings.HasPrefix(a.URL.Path, "/repos/")
	switch {
	case reads || a.by.ID != h.robot.ID:
		return nil
	case h.archived:
		return object{"message": "Repository was archived so is read-only."}
	case strings.Contains(a.URL.Path, "/check-runs") && h.rights["checks"] != "write":
		return object{"message": "Resource not accessible by integration"}
	}
	return nil
}

// Issue is an issue or pull request as it stands.
type Issue struct{ Title, Body, State string }

// Issues are all, in order of their numbers.
func (h *Hub) Issues() []Issue {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []Issue
	for _, i := range h.issues {
		list = append(list, Issue{i.title, i.body, i.state})
	}
	return list
}

// Blocked makes GitHub say that merging is blocked, without a word why.
func (h *Hub) Blocked(number int, blocked bool) {
	h.change(number, func(i *issue) { i.blocked = blocked })
}

// Branch says that a pull request's head is a branch of this repository.
func (h *Hub) Branch(number int, name string) {
	h.change(number, func(i *issue) {
		i.branch = name
		h.refs[name] = i.head
	})
}

// HasBranch reports whether a branch that was named is still there.
func (h *Hub) HasBranch(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refs[name] != ""
}

// State is a pull request's state and base.
func (h *Hub) State(number int) (state, base string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.issues[number-1].state, h.issues[number-1].base
}

// Gone removes an account: its comments and reviews stay without an author.
func (h *Hub) Gone(login string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.people, login)
}

// Subscribe sets which events the App gets.
func (h *Hub) Subscribe(events ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscribed = events
}

// Minted are the tokens that were asked for: repositories and permissions of each.
func (h *Hub) Minted() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.minted)
}
