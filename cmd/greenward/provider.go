package main

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"greenward/agents"
	"greenward/agents/model"
	"greenward/internal/config"
	"greenward/internal/proc"
)

// client speaks to the model server that the environment or the policy names.
func (a *app) client(policy config.Agents, name string) (model.Client, config.Provider, error) {
	p := config.Provider{URL: a.host.Get("OPENAI_BASE_URL")}
	for _, known := range policy.Providers {
		if p.URL == "" || strings.TrimRight(known.URL, "/") == strings.TrimRight(p.URL, "/") {
			p = known
			break
		}
	}
	key := a.host.Get("OPENAI_API_KEY")
	if p.URL == "" && key != "" {
		p.URL = "https://api.openai.com/v1"
	}
	if p.URL == "" || name == "" {
		return nil, p, nil // whoever needs a model says so
	}
	proxy, err := proxies(a.host)
	if err != nil {
		return nil, p, err
	}
	transport := &http.Transport{Proxy: proxy, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true}
	client, err := model.New(model.Options{
		BaseURL: p.URL, Now: a.now, Key: model.NewSecret(key), Model: name, Transport: transport, Wire: p.Wire, MaxTokensField: p.MaxTokensField,
		Concurrency: p.Concurrency, NoStream: p.NoStream, NoStreamUsage: p.NoStreamUsage, SendReasoning: p.SendReasoning,
		MaxTokens: p.MaxTokens, SystemRole: p.SystemRole, OneCall: p.OneCall, MustCall: p.MustCall, Limits: a.limits,
	})
	if err != nil {
		return nil, p, err
	}
	return client, p, nil
}

// proxies is the way to model servers as HTTPS_PROXY, HTTP_PROXY and NO_PROXY of
// the environment say; the lower-case names come first, as curl has it. Nothing
// on this machine itself goes through a proxy.
func proxies(host proc.Host) (func(*http.Request) (*url.URL, error), error) {
	get := func(name string) string { return orElse(host.Get(strings.ToLower(name)), host.Get(name)) }
	ways := map[string]*url.URL{}
	for scheme, name := range map[string]string{"http": "HTTP_PROXY", "https": "HTTPS_PROXY"} {
		value := orElse(get(name), get("ALL_PROXY"))
		if value == "" {
			continue
		}
		if !strings.Contains(value, "://") {
			value = "http://" + value
		}
		way, err := url.Parse(value)
		if err != nil || way.Host == "" {
			return nil, usagef("%s is no address of a proxy: write it as http://host:port", name)
		}
		ways[scheme] = way
	}
	not := strings.Split(get("NO_PROXY"), ",")
	return func(r *http.Request) (*url.URL, error) {
		way := ways[r.URL.Scheme]
		if way == nil || direct(r.URL, not) {
			return nil, nil //nolint:nilnil // it is how net/http says: no proxy
		}
		return way, nil
	}, nil
}

// direct reports whether an address is reached without a proxy.
func direct(u *url.URL, not []string) bool {
	name := strings.ToLower(u.Hostname())
	ip := net.ParseIP(name)
	if name == "localhost" || ip != nil && ip.IsLoopback() {
		return true
	}
	for _, rule := range not {
		rule = strings.ToLower(strings.TrimSpace(rule))
		if host, port, err := net.SplitHostPort(rule); err == nil {
			if port != u.Port() {
				continue
			}
			rule = host
		}
		domain := strings.TrimPrefix(strings.TrimPrefix(rule, "*"), ".")
		_, block, err := net.ParseCIDR(rule)
		switch {
		case rule == "*":
			return true
		case err == nil && ip != nil && block.Contains(ip):
			return true
		case domain != "" && (name == domain || strings.HasSuffix(name, "."+domain)):
			return true
		}
	}
	return false
}

// account is what agents of a policy are charged to.
func account(policy config.Agents, state string) *agents.Account {
	prices := agents.Prices{}
	for _, p := range policy.Providers {
		for name, price := range p.Prices {
			prices[name] = model.Price(price)
		}
	}
	return &agents.Account{
		Prices: prices, Budget: agents.Budget{Tokens: policy.Budget.Tokens, USD: policy.Budget.USD}, Slice: policy.Budget.Slice,
		Meter: &agents.Meter{State: state},
	}
}

// unpriced says what keeps a budget in money from being kept as it is meant, or "".
// none: no price is known at all, and such a budget bounds nothing.
func (c *crew) unpriced() (why string, none bool) {
	policy := c.policy.Agents
	if policy.Budget.USD == 0 {
		return "", false
	}
	var names []string
	for _, of := range []string{"planner", "sub-planner", "worker", "resolver", "fixup", "judge"} {
		role, name := c.role(of)
		if len(role.Command) > 0 {
			name = role.Model
		}
		if name = cmp.Or(name, "the command of agents.roles."+of+" (say its model there)"); !c.account.Prices.Known(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	switch {
	case len(c.account.Prices) == 0:
		return "agents.budget.usd cannot be kept: no price is known (agents.providers[].prices, in USD for a million tokens)", true
	case len(names) > 0:
		return "no price is known of " + strings.Join(names, ", ") + ": tokens of it count at the dearest price under agents.providers[].prices", false
	}
	return "", false
}

// spent is what a run has cost on this host, whichever process spent it.
func (c *crew) spent() func(run string) (agents.Sum, error) {
	meter := &agents.Meter{State: c.hub.State()}
	return func(run string) (agents.Sum, error) {
		all, err := meter.By(run)
		return c.account.Prices.Total(all), err
	}
}

// secrets are the keys of the environment: no transcript shows them.
func (a *app) secrets() []model.Secret {
	var all []model.Secret
	for _, name := range []string{"OPENAI_API_KEY", "GREENWARD_GITHUB_TOKEN", "GREENWARD_WEBHOOK_SECRET", "GREENWARD_GITHUB_PRIVATE_KEY"} {
		all = append(all, model.NewSecret(a.host.Get(name)))
	}
	return all
}

// dollars is an amount in a line, if it is known.
func dollars(usd *float64) string {
	if usd == nil {
		return ""
	}
	return fmt.Sprintf(", %.2f USD", *usd)
}
