package hubtest

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"greenward/internal/proc"
)

// git runs one git command on the repository and returns what it said.
func (h *Hub) git(ctx context.Context, args ...string) (out string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	said := proc.NewCapture(4096, 4096, nil)
	res, err := proc.Run(ctx, proc.Command{
		Name: "git", Args: append([]string{"--git-dir=" + h.dir}, args...), Env: h.host.Only("PATH", "HOME"), Stdout: said, Stderr: said,
	})
	return strings.TrimSpace(said.String()), err == nil && res.OK()
}

// serveGit is the repository over smart HTTP: everybody reads; a person who may write,
// and the App where its installation may write contents, push.
func (h *Hub) serveGit(w http.ResponseWriter, r *http.Request) {
	_, service, _ := strings.Cut(r.URL.Path, ".git/")
	by, known, writes := h.pusher(r)
	advertised := service == "info/refs"
	if advertised {
		service = r.URL.Query().Get("service")
	}
	switch {
	case service != "git-upload-pack" && service != "git-receive-pack":
		http.NotFound(w, r)
		return
	case service == "git-receive-pack" && !known:
		w.Header().Set("WWW-Authenticate", `Basic realm="GitHub"`)
		http.Error(w, "Authentication failed", http.StatusUnauthorized)
		return
	case service == "git-receive-pack" && !writes:
		http.Error(w, "Permission to "+Owner+"/"+Name+".git denied", http.StatusForbidden)
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	args := []string{strings.TrimPrefix(service, "git-"), "--stateless-rpc"}
	w.Header().Set("Cache-Control", "no-cache")
	if advertised {
		args, body = append(args, "--advertise-refs"), nil
		w.Header().Set("Content-Type", "application/x-"+service+"-advertisement")
		line := "# service=" + service + "\n"
		_, _ = fmt.Fprintf(w, "%04x%s0000", len(line)+4, line) // the reader may have gone
	} else {
		w.Header().Set("Content-Type", "application/x-"+service+"-result")
	}
	said := proc.NewCapture(4096, 4096, nil)
	_, err := proc.Run(r.Context(), proc.Command{
		Name: "git", Args: append(args, h.dir), Env: append(h.host.Only("PATH", "HOME"), "GIT_PROTOCOL="+r.Header.Get("Git-Protocol")), Stdin: body, Stdout: w, Stderr: said,
	})
	if err != nil && r.Context().Err() == nil {
		h.tb.Logf("%s: %v %s", service, err, said.String())
	}
	if service == "git-receive-pack" && !advertised {
		h.pushed(by) //nolint:contextcheck // what follows from a push goes on when who pushed has gone
	}
}

// pusher is who asks, and whether he may push.
func (h *Hub) pusher(r *http.Request) (by Person, known, writes bool) {
	_, token, _ := r.BasicAuth()
	r.Header.Set("Authorization", "Bearer "+token)
	h.mu.Lock()
	defer h.mu.Unlock()
	by, known = h.identify(r)
	switch {
	case !known:
	case by.ID == h.robot.ID:
		writes = h.rights["contents"] == "write" && h.gone == "" && !h.archived
	default:
		writes = by.Permission == "write" || by.Permission == "admin" || by.Permission == "maintain"
	}
	return by, known, writes
}
