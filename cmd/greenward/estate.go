package main

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"greenward/bot"
	"greenward/internal/git"
	"greenward/internal/web"
	"greenward/internal/web/login"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// tenant is one repository of the App, served from a hub of its own.
type tenant struct {
	bot.Repository
	stop  context.CancelFunc
	ended chan struct{}

	page http.Handler // nil: not yet
	read func(context.Context, bot.Actor) (bool, error)
	seen map[int64]time.Time // until when somebody may read it, without GitHub being asked again
}

// readFor is how long an answer of GitHub lets somebody read on.
const readFor = time.Minute

// hubs serves every repository of the App, each from a hub of its own below dir.
func (f *front) hubs(ctx context.Context, cfg bot.Config, dir string) error {
	g, ctx := errgroup.WithContext(ctx)
	for serving := map[int64]*tenant{}; ; {
		list, err := bot.Repositories(ctx, cfg)
		if err != nil && ctx.Err() == nil {
			zerolog.Ctx(ctx).Error().Err(err).Msg("repositories were not listed")
		}
		if err == nil {
			f.leave(serving, list)
			for _, r := range list {
				if serving[r.ID] != nil {
					continue
				}
				own, stop := context.WithCancel(ctx)
				t := &tenant{Repository: r, stop: stop, ended: make(chan struct{})}
				serving[r.ID] = t
				g.Go(func() error {
					defer close(t.ended)
					defer stop()
					if err := f.hub(own, cfg, t, dir); err != nil && own.Err() == nil {
						zerolog.Ctx(ctx).Error().Err(err).Str("repository", r.Path()).Msg("repository is not served")
					}
					return nil // the others go on
				})
			}
		}
		timer := time.NewTimer(rescanEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(context.Cause(ctx), g.Wait())
		case <-timer.C:
		case <-f.scan:
			timer.Stop()
		}
	}
}

// leave ends what is not in the list any more, or is there under another name, and
// takes over what changed about the others. One that ended by itself is tried again.
func (f *front) leave(serving map[int64]*tenant, list []bot.Repository) {
	for id, t := range serving {
		i := slices.IndexFunc(list, func(r bot.Repository) bool { return r.ID == id })
		switch {
		case i < 0:
			f.note("%s is not given to the App any more", t.Path())
		case list[i].Path() != t.Path():
			f.note("%s is called %s now", t.Path(), list[i].Path())
		default:
			f.mu.Lock()
			t.Private = list[i].Private
			f.mu.Unlock()
			select {
			case <-t.ended:
				delete(serving, id)
			default:
			}
			continue
		}
		t.stop()
		<-t.ended
		delete(serving, id)
		f.mu.Lock()
		delete(f.tenants, strings.ToLower(t.Path()))
		f.mu.Unlock()
	}
}

// house is where the hub of a repository is: a hub keeps its place when its repository
// gets another name, and one that takes over the name gets another place.
func house(dir string, r bot.Repository) (string, error) {
	marks, err := fs.Glob(os.DirFS(dir), "*/*.git/greenward/repository")
	if err != nil {
		return "", err
	}
	at := path.Join(r.Owner, r.Name+".git")
	for _, mark := range marks {
		data, err := os.ReadFile(filepath.Join(dir, mark))
		if err != nil {
			return "", err
		}
		home := path.Dir(path.Dir(mark))
		switch id := strings.TrimSpace(string(data)); {
		case id == strconv.FormatInt(r.ID, 10):
			return filepath.Join(dir, home), nil
		case home == at:
			at = path.Join(r.Owner, r.Name+"-"+strconv.FormatInt(r.ID, 10)+".git")
		}
	}
	return filepath.Join(dir, at), nil
}

// hub serves one repository of the App.
func (f *front) hub(ctx context.Context, cfg bot.Config, t *tenant, dir string) error {
	sub := *f.app
	f.mu.Lock()
	r := t.Repository
	f.mu.Unlock()
	home, err := house(dir, r)
	if err != nil {
		return err
	}
	sub.dir = home
	cfg.Owner, cfg.Name, cfg.Installation = r.Owner, r.Name, r.Installation
	repo, err := git.InitBare(ctx, sub.dir, f.host)
	if err != nil {
		return err
	}
	mark := filepath.Join(sub.dir, "greenward", "repository")
	if err := os.MkdirAll(filepath.Dir(mark), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(mark, []byte(strconv.FormatInt(r.ID, 10)+"\n"), 0o644); err != nil {
		return err
	}
	if err := repo.SetRemote(ctx, sub.remote, r.Clone); err != nil {
		return err
	}
	log := zerolog.Ctx(ctx).With().Str("repository", r.Path()).Logger()
	g, ctx := errgroup.WithContext(log.WithContext(ctx))
	f.note("serving %s from %s", r.Path(), sub.dir)
	page, b, err := sub.serveHub(ctx, g, f, cfg)
	if err != nil {
		return errors.Join(err, g.Wait())
	}
	f.mu.Lock()
	t.page, t.read = http.StripPrefix("/r/"+r.Path(), page), b.MayRead
	f.tenants[strings.ToLower(r.Path())] = t
	f.mu.Unlock()
	return g.Wait()
}

// page finds the pages of a repository. Those of a private one are for people who have
// signed in and may read it on GitHub; to others it is not there.
func (f *front) page(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	t := f.tenants[strings.ToLower(r.PathValue("owner")+"/"+r.PathValue("name"))]
	private := t != nil && t.Private
	f.mu.Unlock()
	if t == nil || private && shows(r.URL.Path) && !f.mayRead(r, t) {
		http.NotFound(w, r)
		return
	}
	t.page.ServeHTTP(w, r)
}

// shows reports whether a page tells what is in a repository: not its health and its
// figures, nor the git endpoint, which asks for a token of its own.
func shows(at string) bool {
	rest := strings.SplitN(strings.TrimPrefix(at, "/r/"), "/", 3)
	return len(rest) < 3 || rest[2] == "" || rest[2] == "badge.svg" || rest[2] == "act"
}

func (f *front) mayRead(r *http.Request, t *tenant) bool {
	who, _, ok := f.login.Who(r)
	if !ok {
		return false
	}
	f.mu.Lock()
	until := t.seen[who.ID]
	f.mu.Unlock()
	if f.now().Before(until) {
		return true
	}
	may, err := t.read(r.Context(), bot.Actor{Login: who.Login, ID: who.ID})
	if err != nil {
		zerolog.Ctx(r.Context()).Warn().Err(err).Str("repository", t.Path()).Msg("reader was not let in")
	}
	if err != nil || !may {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.seen == nil || len(t.seen) > 1000 {
		t.seen = map[int64]time.Time{}
	}
	t.seen[who.ID] = f.now().Add(readFor)
	return true
}

// estate lists what is served, for the first page: nothing private for strangers.
func (f *front) estate(r *http.Request) web.Estate {
	var e web.Estate
	select {
	case <-f.ready:
	default:
		e.NoApp = true
	}
	f.mu.Lock()
	list := make([]*tenant, 0, len(f.tenants))
	private := map[*tenant]bool{}
	for _, t := range f.tenants {
		list = append(list, t)
		private[t] = t.Private
	}
	f.mu.Unlock()
	var who login.Person
	who, _, e.SignIn = f.login.Who(r)
	e.SignIn = !e.SignIn && f.login.Open()
	for _, t := range list {
		if !private[t] || who.ID != 0 && f.mayRead(r, t) {
			e.Names = append(e.Names, t.Path())
		}
	}
	slices.Sort(e.Names)
	return e
}
