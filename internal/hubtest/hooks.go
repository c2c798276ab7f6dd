package hubtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
)

// hook is where the App's deliveries go.
type hook struct {
	url, secret string
	faults      []*HookFault
	held        []func()
	log         []object // newest last
}

// HookFault is something that goes wrong with deliveries.
type HookFault struct {
	Event string // a regular expression on the event's name
	Mode  string // drop, duplicate, hold, forge
	Times int
}

// Hook sends a signed delivery to url for everything that people do from now on. They
// go at the same time, in whatever order they arrive.
func (h *Hub) Hook(url, secret string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook.url, h.hook.secret = url, secret
}

// FailHook adds a fault.
func (h *Hub) FailHook(f HookFault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook.faults = append(h.hook.faults, &f)
}

// Release sends what was held, the newest first.
func (h *Hub) Release() {
	h.mu.Lock()
	held := h.hook.held
	h.hook.held = nil
	h.mu.Unlock()
	for _, send := range slices.Backward(held) {
		send()
	}
}

// Delivered waits until no delivery is under way and returns how many came to an end.
func (h *Hub) Delivered() int {
	h.sending.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.hook.log)
}

// emit tells the App of something. h.mu is held.
func (h *Hub) emit(event, action string, i *issue, by Person) {
	if h.hook.url == "" {
		return
	}
	payload := object{
		"action": action, "sender": user(by), "installation": object{"id": Installation},
		"repository": object{"full_name": Owner + "/" + Name},
	}
	if i != nil && i.pull && event != "issue_comment" {
		payload["pull_request"] = pullJSON(i)
	} else if i != nil {
		payload["issue"] = h.issueJSON(i)
	}
	body, err := json.Marshal(payload)
	if err != nil {
		h.tb.Errorf("encode a delivery: %v", err)
		return
	}
	guid, times, signed := fmt.Sprintf("guid-%d", h.next()), 1, Sign(h.hook.secret, body)
	url := h.hook.url
	send := func() {
		h.sending.Go(func() { h.post(url, event, guid, signed, body) })
	}
	for _, f := range h.hook.faults {
		if f.Times == 0 || !regexp.MustCompile(f.Event).MatchString(event) {
			continue
		}
		f.Times--
		switch f.Mode {
		case "drop":
			times = 0
		case "duplicate":
			times = 2
		case "forge":
			signed = Sign("another", body)
		case "hold":
			h.hook.held, times = append(h.hook.held, send), 0
		}
		break
	}
	for range times {
		send()
	}
}

func (h *Hub) post(url, event, guid, signed string, body []byte) {
	r, err := http.NewRequestWithContext(h.tb.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		h.tb.Errorf("deliver: %v", err)
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("X-GitHub-Delivery", guid)
	r.Header.Set("X-Hub-Signature-256", signed)
	code, status := 0, "failed to connect to host"
	if resp, err := http.DefaultClient.Do(r); err == nil {
		code, status = resp.StatusCode, resp.Status
		_ = resp.Body.Close() // nothing of it is read
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook.log = append(h.hook.log, object{"id": h.next(), "guid": guid, "event": event, "status_code": code, "status": status})
}

// hookRoutes tell the App where its deliveries go and how they were taken.
func (h *Hub) hookRoutes(route func(string, func(*asked) (int, any))) {
	route("GET /app/hook/config", func(*asked) (int, any) {
		return 200, object{"url": h.hook.url, "content_type": "json", "secret": "********"}
	})
	route("GET /app/hook/deliveries", func(*asked) (int, any) {
		list := slices.Clone(h.hook.log)
		slices.Reverse(list)
		return 200, list
	})
}
