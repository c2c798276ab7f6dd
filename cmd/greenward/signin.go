package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"strings"

	"greenward/bot"
	"greenward/bot/manifest"
	"greenward/internal/web/login"
)

// signIn lets people sign in through GitHub, as soon as there is an App that has a
// client id and secret: from the environment, or from what the set-up kept.
func (f *front) signIn(cfg bot.Config, kept, public string) error {
	id := f.host.Get("GREENWARD_GITHUB_CLIENT_ID")
	key, err := f.secret("GREENWARD_GITHUB_CLIENT_SECRET")
	if err != nil {
		return err
	}
	made, err := manifest.Load(kept)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.client = [2]string{cmp.Or(id, made.Client), cmp.Or(key.Reveal(), made.ClientSecret)}
	api := cmp.Or(strings.TrimRight(cfg.API, "/"), "https://api.github.com")
	pages := strings.TrimSuffix(api, "/api/v3")
	if pages == "https://api.github.com" {
		pages = "https://github.com"
	}
	f.login = login.New(login.Config{Web: pages, API: api, Public: public, Now: f.now, App: func() (string, string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.client[0], f.client[1]
	}})
	for _, path := range []string{"/login", "/login/", "/logout"} {
		f.mux.Handle(path, f.login.Handler())
	}
	return nil
}

// steering is what people who have signed in may do to one repository.
type steering struct {
	crew *crew
	bot  *bot.Bot
}

// May asks GitHub.
func (s steering) May(ctx context.Context, who login.Person) (bool, error) {
	return s.bot.MaySteer(ctx, bot.Actor{Login: who.Login, ID: who.ID})
}

// Do writes the order to the control ref, by the account's name. The verbs of the page
// are those of the control ref.
func (s steering) Do(ctx context.Context, who login.Person, verb, reason string) error {
	return botOrders{s.crew}.Order(ctx, bot.Order{
		Verb: verb, Reason: cmp.Or(reason, "from the dashboard"), By: bot.Actor{Login: who.Login, ID: who.ID}, Key: "web-" + strings.ToLower(rand.Text()), At: s.crew.app.now(),
	})
}
