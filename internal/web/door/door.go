// Package door owns a hub's git endpoint over http: who comes in, which refs they
// may move, and what they are told when they may not. Moving refs and serving
// packs is git's work; what a credential may do is decided by whoever opens the
// door.
package door

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"greenward/internal/git"
	"greenward/internal/git/wire"

	"github.com/rs/zerolog"
)

// Bounds of what is read of a push before its pack.
const (
	maxMoves = 2000
	maxLine  = 4 << 10
)

// Guest is who asks.
type Guest struct {
	Name     string // of a worker's host
	Operator bool
}

// Door is the endpoint of one hub. It serves info/refs, git-upload-pack and
// git-receive-pack below wherever it is mounted.
type Door struct {
	Repo *git.Repo // required: the hub
	// Who tells who asks; false: nobody that is known. Required.
	Who func(r *http.Request) (Guest, bool)
	// May is why a guest may not move a ref; nil: he may. Required.
	May   func(g Guest, u git.RefUpdate) error
	Moved func() // called after a push of more than claims; nil: nothing
	// Claims moves claims, and has git at rest while it does; nil: git moves them.
	Claims *git.Taker
}

// ServeHTTP answers one request.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guest, known := d.Who(r)
	if !known {
		w.Header().Set("WWW-Authenticate", `Basic realm="greenward hub"`)
		http.Error(w, "a worker's or an operator's token is wanted", http.StatusUnauthorized)
		return
	}
	w.Header().Set("Cache-Control", "no-cache")
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/info/refs"):
		d.advertise(w, r)
	case r.Method == http.MethodPost && name == git.UploadPack:
		d.look(w, r)
	case r.Method == http.MethodPost && name == git.ReceivePack:
		d.receive(w, r, guest)
	default:
		http.NotFound(w, r)
	}
}

func (d *Door) advertise(w http.ResponseWriter, r *http.Request) {
	service := r.URL.Query().Get("service")
	if service != git.UploadPack && service != git.ReceivePack {
		http.Error(w, "a git newer than 2010 is wanted", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/x-"+service+"-advertisement")
	line := "# service=" + service + "\n"
	if _, err := fmt.Fprintf(w, "%04x%s0000", len(line)+4, line); err != nil {
		return // the other side has gone
	}
	d.run(w, r, git.ServeInput{Service: service, Advertise: true, Protocol: r.Header.Get("Git-Protocol"), In: http.NoBody, Out: w})
}

// serve lets git answer what in holds of a request.
func (d *Door) serve(w http.ResponseWriter, r *http.Request, in git.ServeInput) {
	w.Header().Set("Content-Type", "application/x-"+in.Service+"-result")
	in.Out, in.Protocol = w, r.Header.Get("Git-Protocol")
	d.run(w, r, in)
}

// run lets git answer. Its head is out by then: what goes wrong can only be logged,
// and the client sees a reply that ends too early.
func (d *Door) run(_ http.ResponseWriter, r *http.Request, in git.ServeInput) {
	if err := d.Repo.Serve(r.Context(), in); err != nil && r.Context().Err() == nil {
		zerolog.Ctx(r.Context()).Warn().Err(err).Msg("git request failed")
	}
}

func unzipped(r *http.Request) (io.Reader, error) {
	if r.Header.Get("Content-Encoding") == "gzip" {
		return gzip.NewReader(r.Body)
	}
	return r.Body, nil
}

// receive takes a push, if the guest may move each of its refs.
func (d *Door) receive(w http.ResponseWriter, r *http.Request, g Guest) {
	body, err := unzipped(r)
	if err != nil {
		http.Error(w, "the body is no gzip", http.StatusBadRequest)
		return
	}
	in := bufio.NewReaderSize(body, maxLine+4)
	push, err := ReadPush(in)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	refused := map[git.Ref]string{}
	for _, u := range push.Moves {
		if err := d.May(g, u); err != nil {
			refused[u.Ref] = git.OneLine(err.Error())
		}
	}
	if len(refused) > 0 {
		zerolog.Ctx(r.Context()).Warn().Str("agent", g.Name).Int("refs", len(refused)).Msg("push refused")
		w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
		// What the client sends on after that nobody reads; a short pack is let in so
		// that it comes to read the answer.
		if _, err := io.CopyN(io.Discard, in, 32<<20); err != nil && !errors.Is(err, io.EOF) {
			return
		}
		if _, err := w.Write(push.refusal(refused)); err != nil {
			return // the other side has gone
		}
		return
	}
	moves, rest, quick := d.claims(push, in)
	if quick {
		d.take(w, r, push, moves)
		return
	}
	forward := slices.ContainsFunc(push.Moves, func(u git.RefUpdate) bool {
		return strings.HasPrefix(string(u.Ref), "refs/heads/") && !strings.HasPrefix(string(u.Ref), git.QueuePrefix)
	})
	d.serve(w, r, git.ServeInput{Service: git.ReceivePack, In: io.MultiReader(bytes.NewReader(push.head), bytes.NewReader(rest), in), Forward: forward})
	if d.Moved != nil {
		d.Moved()
	}
}

// Push is the beginning of a push: what is to move.
type Push struct {
	Moves []git.RefUpdate
	caps  []string
	head  []byte // what was read, as it came
	odd   bool   // it says more than what is to move
}

// ReadPush reads what a push wants to move, up to where its pack begins. Signed
// pushes and malformed lines are refused.
func ReadPush(in *bufio.Reader) (Push, error) {
	var p Push
	for {
		line, end, err := p.line(in)
		if err != nil {
			return p, err
		}
		if end {
			if len(p.Moves) == 0 {
				return p, errors.New("nothing is to be moved")
			}
			return p, nil
		}
		if len(p.Moves) == 0 {
			var caps string
			line, caps, _ = strings.Cut(line, "\x00")
			p.caps = strings.Fields(caps)
		}
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "shallow ") {
			p.odd = true
			continue
		}
		u, err := readMove(line)
		if err != nil {
			return p, err
		}
		if p.Moves = append(p.Moves, u); len(p.Moves) > maxMoves {
			return p, fmt.Errorf("more than %d refs in one push", maxMoves)
		}
	}
}

// line reads one pkt-line; end: a flush.
func (p *Push) line(in *bufio.Reader) (line string, end bool, err error) {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return "", false, fmt.Errorf("read the push: %w", err)
	}
	p.head = append(p.head, size[:]...)
	n, err := strconv.ParseUint(string(size[:]), 16, 16)
	if err != nil || n != 0 && (n < 5 || n > maxLine) {
		return "", false, fmt.Errorf("read the push: a line of %q bytes", size[:])
	}
	if n == 0 {
		return "", true, nil
	}
	data := make([]byte, n-4)
	if _, err := io.ReadFull(in, data); err != nil {
		return "", false, fmt.Errorf("read the push: %w", err)
	}
	p.head = append(p.head, data...)
	return string(data), false, nil
}

func readMove(line string) (git.RefUpdate, error) {
	fields := strings.SplitN(line, " ", 3)
	if len(fields) != 3 {
		return git.RefUpdate{}, fmt.Errorf("read the push: %q is no move of a ref", git.OneLine(line))
	}
	ref, err := git.ParseRef(fields[2])
	if err != nil {
		return git.RefUpdate{}, err
	}
	u := git.RefUpdate{Ref: ref}
	for i, into := range []*git.Hash{&u.Old, &u.New} {
		if strings.Trim(fields[i], "0") == "" && len(fields[i]) == 40 {
			continue
		}
		if *into, err = git.ParseHash(fields[i]); err != nil {
			return u, err
		}
	}
	return u, nil
}

// refusal is the report that tells why each ref stays; the others stay with them.
func (p *Push) refusal(refused map[git.Ref]string) []byte {
	moves, stays := make([]wire.Move, len(p.Moves)), map[string]string{}
	for i, u := range p.Moves {
		moves[i].Ref = string(u.Ref)
		stays[moves[i].Ref] = "other refs of this push were refused"
		if why, named := refused[u.Ref]; named {
			stays[moves[i].Ref] = why
		}
	}
	return wire.Report(moves, stays, slices.Contains(p.caps, "side-band-64k"))
}
