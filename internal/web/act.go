package web

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/rs/zerolog"

	"greenward/internal/web/login"
)

// Steering is what signed-in people may do to a repository.
type Steering interface {
	// May reports whether an account may steer now, as GitHub has it.
	May(ctx context.Context, who login.Person) (bool, error)
	// Do gives an order: one of Verbs.
	Do(ctx context.Context, who login.Person, verb, reason string) error
}

// Verbs are the orders that a page may give.
func Verbs() []string { return []string{"freeze", "thaw", "hold", "release"} }

// maxForm bounds what a form may send, and maxReason what of it is kept.
const (
	maxForm   = 4 << 10
	maxReason = 200
)

// view is what the page shows: the hub, and who looks.
type view struct {
	Overview
	SignIn bool // somebody could
	Who    string
	Token  string // that forms carry
	Verbs  []string
	Here   string
	Many   bool // it is the page of a server of many hubs
	Estate Estate
}

func (s *site) view(r *http.Request, o Overview) view {
	v := view{Overview: o, Here: s.cfg.Here}
	if v.Many = s.cfg.Estate != nil; v.Many {
		v.Estate = s.cfg.Estate(r)
	}
	if s.cfg.Login == nil || s.cfg.Steering == nil || !s.cfg.Login.Open() {
		return v
	}
	who, token, ok := s.cfg.Login.Who(r)
	if v.SignIn = !ok; ok {
		v.Who, v.Token, v.Verbs = who.Login, token, Verbs()
	}
	return v
}

// act does what a form of the page asks for. Everything that is wrong with it is
// refused alike, so that other sites learn nothing.
func (s *site) act(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if s.cfg.Login == nil || s.cfg.Steering == nil {
		http.NotFound(w, r)
		return
	}
	who, ok := s.cfg.Login.Sent(r)
	if !ok {
		s.text(w, r, http.StatusForbidden, "sign in, and act from the page\n")
		return
	}
	verb, reason := "", strings.Join(strings.Fields(r.PostFormValue("reason")), " ")
	for _, v := range Verbs() {
		if v == r.PostFormValue("verb") {
			verb = v
		}
	}
	if verb == "" {
		s.text(w, r, http.StatusUnprocessableEntity, "no such order\n")
		return
	}
	err := s.order(r.Context(), who, verb, strings.ToValidUTF8(reason[:min(len(reason), maxReason)], ""))
	switch {
	case errors.Is(err, mayNotError{}):
		s.text(w, r, http.StatusForbidden, err.Error()+"\n")
	case err != nil:
		zerolog.Ctx(r.Context()).Error().Err(err).Msg("order was not given")
		s.text(w, r, http.StatusServiceUnavailable, "the order was not given; see the log\n")
	default:
		zerolog.Ctx(r.Context()).Info().Str("verb", verb).Int64("user", who.ID).Str("login", who.Login).Msg("order was given")
		s.forget()
		w.Header().Set("Location", "./")
		w.WriteHeader(http.StatusSeeOther)
	}
}

// mayNotError is the answer to who may not steer.
type mayNotError struct{}

func (mayNotError) Error() string { return "that is for maintainers of the repository" }

func (s *site) order(ctx context.Context, who login.Person, verb, reason string) error {
	may, err := s.cfg.Steering.May(ctx, who)
	if err != nil {
		return err
	}
	if !may {
		return mayNotError{}
	}
	return s.cfg.Steering.Do(ctx, who, verb, reason)
}
