package door

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"

	"greenward/internal/git"
	"greenward/internal/git/wire"

	"github.com/rs/zerolog"
)

// claims are the moves of a push that brings claims alone, as a Taker takes them.
// rest is what was read of it. false: git is to receive it.
func (d *Door) claims(push Push, in io.Reader) (moves []wire.Move, rest []byte, ok bool) {
	if d.Claims == nil || !slices.Contains(push.caps, "report-status") || slices.Contains(push.caps, "atomic") && len(push.Moves) > 1 || push.odd {
		return nil, nil, false
	}
	brings := false
	for _, u := range push.Moves {
		if !strings.HasPrefix(string(u.Ref), git.ClaimPrefix) {
			return nil, nil, false
		}
		brings = brings || !u.New.IsZero()
	}
	rest, err := io.ReadAll(io.LimitReader(in, wire.MaxPack+1))
	if err != nil {
		return nil, rest, false // git finds it wanting, too
	}
	var commits map[string][]byte
	if brings {
		if commits, err = wire.Unpack(rest); err != nil {
			return nil, rest, false
		}
	}
	for _, u := range push.Moves {
		m := wire.Move{Ref: string(u.Ref), Old: onWire(u.Old), New: onWire(u.New), Raw: commits[string(u.New)]}
		if !u.New.IsZero() && !wire.Alone(m.Raw) {
			return nil, rest, false
		}
		moves = append(moves, m)
	}
	return moves, rest, true
}

func onWire(h git.Hash) string {
	if h.IsZero() {
		return wire.Zero
	}
	return string(h)
}

// take moves claims and tells what came of it.
func (d *Door) take(w http.ResponseWriter, r *http.Request, push Push, moves []wire.Move) {
	stays := d.Claims.Take(r.Context(), moves)
	w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
	if _, err := w.Write(wire.Report(moves, stays, slices.Contains(push.caps, "side-band-64k"))); err != nil {
		return // the other side has gone, and looks it up
	}
}

// look answers what a mirror asks while it follows: the list of refs, and commits of
// claims. All else git answers.
func (d *Door) look(w http.ResponseWriter, r *http.Request) {
	body, err := unzipped(r)
	if err != nil {
		http.Error(w, "the body is no gzip", http.StatusBadRequest)
		return
	}
	begun, err := io.ReadAll(io.LimitReader(body, wire.MaxAsk+1))
	if err == nil && r.Header.Get("Git-Protocol") == "version=2" {
		if answer := d.answer(begun); answer != nil {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			if _, err := w.Write(answer); err != nil {
				zerolog.Ctx(r.Context()).Debug().Err(err).Msg("git request was given up")
			}
			return
		}
	}
	d.serve(w, r, git.ServeInput{Service: git.UploadPack, In: io.MultiReader(bytes.NewReader(begun), body)})
}

// answer is nil where git has to.
func (d *Door) answer(body []byte) []byte {
	ask, err := wire.ReadAsk(body)
	if err != nil {
		return nil
	}
	if len(ask.Want) > 0 {
		commits := make([][]byte, len(ask.Want))
		for i, h := range ask.Want {
			if commits[i], err = d.Repo.Lone(git.Hash(h)); err != nil {
				return nil
			}
		}
		answer, err := wire.Fetched(commits)
		if err != nil {
			return nil
		}
		return answer
	}
	slices.Sort(ask.Prefixes)
	var list []wire.Ref
	for _, prefix := range ask.Prefixes {
		if !strings.HasPrefix(prefix, "refs/") || strings.Contains(prefix, "..") {
			return nil
		}
		refs, err := d.Repo.Refs(prefix)
		if err != nil {
			return nil
		}
		for _, v := range refs {
			list = append(list, wire.Ref{Name: string(v.Ref), Hash: string(v.Hash)})
		}
	}
	slices.SortFunc(list, func(a, b wire.Ref) int { return strings.Compare(a.Name, b.Name) })
	return wire.Listing(slices.Compact(list))
}
