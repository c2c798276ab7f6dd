package config

import (
	"cmp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Parse reads a policy. Its error is an *Error with every fault in it.
func Parse(data []byte) (Config, error) {
	top, err := document(data)
	if err != nil {
		r := &reader{}
		r.fault(&yaml.Node{}, "", err)
		return Config{}, &Error{Faults: r.faults}
	}
	c := Default()
	if top == nil {
		return c, nil
	}
	r := &reader{}
	r.policy(top, &c)
	if len(r.faults) > 0 {
		slices.SortStableFunc(r.faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
		return Config{}, &Error{Faults: r.faults}
	}
	return c, nil
}

// policy reads the whole file, then the rules that tie its parts together.
func (r *reader) policy(top *yaml.Node, c *Config) {
	var smoke, mode *yaml.Node
	seen := r.object(top, "", fields{
		"main":   scalar(r, &c.Main, branchName),
		"checks": func(n *yaml.Node, key string) { r.checks(n, key, c) },
		"queue": func(n *yaml.Node, key string) {
			in := r.queue(n, key, &c.Queue)
			smoke, mode = in["smoke"], in["policy"]
		},
		"green": func(n *yaml.Node, key string) {
			if n.Kind == yaml.ScalarNode {
				scalar(r, &c.Green.Branch, branchName)(n, key)
				return
			}
			r.green(n, key, &c.Green)
		},
		"agents": func(n *yaml.Node, key string) { r.agents(n, key, &c.Agents) },
	})
	if c.Main == c.Green.Branch {
		r.fault(cmp.Or(seen["green"], seen["main"], top), "green",
			refuse("give green a branch of its own", "is %q, as main is", c.Main))
	}
	if smoke != nil && smoke.Kind == yaml.SequenceNode {
		r.smoke(smoke, c)
	}
	if c.Queue.Policy == "gated" && len(c.Checks) == 0 && !c.ChecksNone && seen["checks"] == nil {
		r.fault(mode, "queue.policy", refuse("add checks, such as [{name: test, run: go test ./...}], or write `checks: none` if that is meant",
			"gated, but no checks are configured"))
	}
}

// smoke holds that every smoke check is one of the checks.
func (r *reader) smoke(n *yaml.Node, c *Config) {
	var names []string
	for _, k := range c.Checks {
		names = append(names, k.Name)
	}
	r.items(n, "queue.smoke", func(n *yaml.Node, key string) {
		if n.Kind != yaml.ScalarNode || slices.Contains(names, n.Value) {
			return
		}
		hint := "there are no checks"
		if len(names) > 0 {
			hint = nearest(n.Value, names)
		}
		r.fault(n, key, refuse(hint, "%q is not one of the checks", n.Value))
	})
}

func (r *reader) checks(n *yaml.Node, key string, c *Config) {
	if n.Kind == yaml.ScalarNode && n.Value == "none" {
		c.ChecksNone = true
		return
	}
	lines := map[string]int{}
	r.items(n, key, func(n *yaml.Node, key string) {
		k, ok := r.check(n, key)
		if first, twice := lines[k.Name]; twice && k.Name != "" {
			r.fault(n, key+".name", refuse("give each check its own name", "%q is the name of the check in line %d too", k.Name, first))
			return
		}
		lines[k.Name] = n.Line
		if ok {
			c.Checks = append(c.Checks, k)
		}
	})
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		r.fault(n, key, refuse("write `checks: none` if that is meant", "is an empty list"))
	}
}

func (r *reader) check(n *yaml.Node, key string) (Check, bool) {
	k := Check{Timeout: defaultTimeout, Report: "none", Required: true}
	before := len(r.faults)
	seen := r.object(n, key, fields{
		"name":       scalar(r, &k.Name, checkName),
		"run":        scalar(r, &k.Run, command),
		"timeout":    scalar(r, &k.Timeout, duration),
		"report":     scalar(r, &k.Report, report),
		"required":   scalar(r, &k.Required, boolean),
		"history":    scalar(r, &k.History, boolean),
		"sandbox":    scalar(r, &k.Sandbox, boolean),
		"hold_out":   scalar(r, &k.HoldOut, boolean),
		"remote":     scalar(r, &k.Remote, text),
		"renamed":    list(r, &k.Renamed, text),
		"at_least":   scalar(r, &k.AtLeast, duration),
		"quarantine": func(n *yaml.Node, key string) { r.quarantine(n, key, &k.Quarantine) },
		"limits": func(n *yaml.Node, key string) {
			r.object(n, key, fields{
				"memory":    scalar(r, &k.Bounds.Memory, size),
				"processes": scalar(r, &k.Bounds.Processes, within(10, 1_000_000)),
				"file_size": scalar(r, &k.Bounds.FileSize, size),
			})
		},
	})
	if n.Kind != yaml.MappingNode {
		return k, false
	}
	if seen["name"] == nil {
		r.fault(n, key, refuse("add one, such as name: test", "has no name"))
	}
	if seen["run"] == nil && seen["remote"] == nil {
		r.fault(n, key, refuse("add run: COMMAND, or remote: NAME for a verdict of the forge", "has nothing to run"))
	}
	if seen["remote"] != nil {
		for _, own := range []string{"run", "report", "history", "sandbox", "limits"} {
			if seen[own] != nil {
				r.fault(seen[own], join(key, own), refuse("drop one of them", "does not go with remote: the forge runs that check"))
			}
		}
	} else if seen["renamed"] != nil {
		r.fault(seen["renamed"], join(key, "renamed"), refuse("", "goes with remote only: it lists other names of the forge"))
	} else if seen["at_least"] != nil {
		r.fault(seen["at_least"], join(key, "at_least"), refuse("", "goes with remote only: what runs here is seen to run"))
	}
	return k, len(r.faults) == before
}

// quarantine wants an owner and an end: one without either is for ever.
func (r *reader) quarantine(n *yaml.Node, key string, q *Quarantine) {
	seen := r.object(n, key, fields{
		"owner":  scalar(r, &q.Owner, text),
		"until":  scalar(r, &q.Until, moment),
		"reason": scalar(r, &q.Reason, text),
	})
	if n.Kind == yaml.MappingNode && (seen["owner"] == nil || seen["until"] == nil) {
		r.fault(n, key, refuse("as in {owner: ann@example.com, until: 2030-01-31, reason: the port is taken at times}", "wants both owner and until"))
	}
}

func (r *reader) queue(n *yaml.Node, key string, q *Queue) map[string]*yaml.Node {
	seen := r.object(n, key, fields{
		"policy":       scalar(r, &q.Policy, oneOf("tolerant", "gated", "adaptive")),
		"smoke":        list(r, &q.Smoke, checkName),
		"error_budget": scalar(r, &q.ErrorBudget, percent),
		"method":       scalar(r, &q.Method, oneOf("rebase", "squash", "merge")),
		"approvals":    scalar(r, &q.Approvals, oneOf("head", "content")),
		"slots":        scalar(r, &q.Slots, within(1, 256)),
		"embargo":      list(r, &q.Embargo, embargo),
		"gate":         func(n *yaml.Node, key string) { r.gate(n, key, &q.Gate) },
	})
	if seen["method"] != nil {
		q.PullMethod = q.Method
	}
	return seen
}

// gateRules are the names of the gate's rules, which a test of the gate holds to its own.
func gateRules() []string {
	return []string{
		"banned", "binary", "case", "deny", "duplicate", "lfs", "markers", "max_file", "names", "nested", "parse", "reverts", "secrets", "symlink",
		"tasks", "trailers",
	}
}

func (r *reader) gate(n *yaml.Node, key string, g *Gate) {
	r.object(n, key, fields{
		"max_file": scalar(r, &g.MaxFile, size),
		"deny":     list(r, &g.Deny, glob),
		"banned":   list(r, &g.Banned, text),
		"skip": func(n *yaml.Node, key string) {
			r.items(n, key, func(n *yaml.Node, key string) {
				var s Skip
				seen := r.object(n, key, fields{
					"rule":  scalar(r, &s.Rule, oneOf(gateRules()...)),
					"paths": list(r, &s.Paths, glob),
				})
				if n.Kind == yaml.MappingNode && (seen["rule"] == nil || seen["paths"] == nil) {
					r.fault(n, key, refuse(`as in {rule: markers, paths: ["testdata/**"]}`, "wants both rule and paths"))
				}
				g.Skip = append(g.Skip, s)
			})
		},
		"parse": func(n *yaml.Node, key string) {
			r.items(n, key, func(n *yaml.Node, key string) {
				var p Parser
				seen := r.object(n, key, fields{
					"paths": list(r, &p.Paths, glob),
					"run":   scalar(r, &p.Run, text),
				})
				if n.Kind == yaml.MappingNode && (seen["paths"] == nil || seen["run"] == nil) {
					r.fault(n, key, refuse(`as in {paths: ["**/*.toml"], run: taplo lint -}`, "wants both paths and run"))
				}
				g.Parse = append(g.Parse, p)
			})
		},
	})
}

func (r *reader) green(n *yaml.Node, key string, g *Green) {
	r.object(n, key, fields{
		"branch":      scalar(r, &g.Branch, branchName),
		"schedule":    scalar(r, &g.Schedule, schedule),
		"repair":      list(r, &g.Repair, oneOf("revert", "subset", "agent", "prefix")),
		"tags":        scalar(r, &g.Tags, oneOf("daily", "all", "none")),
		"announce":    scalar(r, &g.Announce, oneOf("none", "release", "deployment")),
		"stale_after": scalar(r, &g.StaleAfter, duration),
		"soak":        scalar(r, &g.Soak, duration),
		"debt_limit":  scalar(r, &g.DebtLimit, within(0, 1_000_000)),
		"protected":   list(r, &g.Protected, glob),
		"hold_out":    list(r, &g.HoldOut, glob),
		"no_revert": func(n *yaml.Node, key string) {
			r.object(n, key, fields{"authors": list(r, &g.NoRevert.Authors, text), "paths": list(r, &g.NoRevert.Paths, glob)})
		},
		"signers": list(r, &g.Signers, signer),
	})
}

func (r *reader) agents(n *yaml.Node, key string, a *Agents) {
	r.object(n, key, fields{
		"workers":  scalar(r, &a.Workers, within(1, 10_000)),
		"model":    scalar(r, &a.Model, word),
		"roles":    func(n *yaml.Node, key string) { r.roles(n, key, a) },
		"sandbox":  scalar(r, &a.Sandbox, oneOf("auto", "on", "off")),
		"network":  scalar(r, &a.Network, boolean),
		"min_disk": scalar(r, &a.MinDisk, size),
		"limits": func(n *yaml.Node, key string) {
			r.object(n, key, fields{
				"memory":    scalar(r, &a.Limits.Memory, size),
				"processes": scalar(r, &a.Limits.Processes, within(10, 1_000_000)),
				"cpus":      scalar(r, &a.Limits.CPUs, processors),
				"file_size": scalar(r, &a.Limits.FileSize, size),
				"io":        scalar(r, &a.Limits.IO, size),
				"time":      scalar(r, &a.Limits.Time, duration),
				"silence":   scalar(r, &a.Limits.Silence, bound),
				"steps":     scalar(r, &a.Limits.Steps, within(1, 1_000_000)),
				"tokens":    scalar(r, &a.Limits.Tokens, Count),
				"output":    scalar(r, &a.Limits.Output, size),
			})
		},
		"budget": func(n *yaml.Node, key string) {
			r.object(n, key, fields{
				"usd":    scalar(r, &a.Budget.USD, money),
				"tokens": scalar(r, &a.Budget.Tokens, Count),
				"slice":  scalar(r, &a.Budget.Slice, percent),
			})
		},
		"providers": func(n *yaml.Node, key string) {
			r.items(n, key, func(n *yaml.Node, key string) {
				a.Providers = append(a.Providers, r.provider(n, key))
			})
		},
		"caches": func(n *yaml.Node, key string) {
			a.Caches = map[string]string{}
			r.pairs(n, key, func(k, v *yaml.Node, key string) {
				var how string
				scalar(r, &how, oneOf("shared", "layered", "private"))(v, key)
				if _, err := checkName(k.Value); err != nil {
					r.fault(k, key, err)
				}
				a.Caches[k.Value] = how
			})
		},
	})
}

func (r *reader) roles(n *yaml.Node, key string, a *Agents) {
	known := fields{}
	a.Roles = map[string]Role{}
	for _, name := range []string{"planner", "sub-planner", "worker", "resolver", "fixup", "judge"} {
		known[name] = func(n *yaml.Node, key string) {
			var role Role
			seen := r.object(n, key, fields{
				"model":   scalar(r, &role.Model, word),
				"effort":  scalar(r, &role.Effort, word),
				"network": scalar(r, &role.Network, boolean),
				"env":     list(r, &role.Env, variable),
				"home":    list(r, &role.Home, homePath),
				// Not list: a command may well say the same word twice.
				"command": func(n *yaml.Node, key string) {
					r.items(n, key, func(n *yaml.Node, key string) {
						var arg string
						scalar(r, &arg, argument)(n, key)
						role.Command = append(role.Command, arg)
					})
				},
			})
			if c := seen["command"]; c != nil && c.Kind == yaml.SequenceNode && (len(role.Command) == 0 || role.Command[0] == "") {
				r.fault(c, join(key, "command"), refuse(`as in [codex, exec, "-"]`, "has no program"))
			}
			if c := seen["command"]; c != nil && name != "worker" && name != "resolver" {
				r.fault(c, join(key, "command"), refuse("set model here, or put the command under worker or resolver", "a command works as worker or resolver only"))
			}
			a.Roles[key[len("agents.roles."):]] = role
		}
	}
	r.object(n, key, known)
}

func (r *reader) provider(n *yaml.Node, key string) Provider {
	p := Provider{Wire: "chat", MaxTokensField: "max_tokens", SystemRole: "system", Context: 128_000, Concurrency: 64}
	stream, usage, parallel := true, true, true
	seen := r.object(n, key, fields{
		"url":              scalar(r, &p.URL, serverURL),
		"wire":             scalar(r, &p.Wire, oneOf("chat", "responses")),
		"max_tokens_field": scalar(r, &p.MaxTokensField, oneOf("max_tokens", "max_completion_tokens")),
		"context":          scalar(r, &p.Context, within(1, 1_000_000_000)),
		"concurrency":      scalar(r, &p.Concurrency, within(1, 10_000)),
		"stream":           scalar(r, &stream, boolean),
		"stream_usage":     scalar(r, &usage, boolean),
		"reasoning":        scalar(r, &p.SendReasoning, boolean),
		"max_tokens":       scalar(r, &p.MaxTokens, within(1, 1_000_000_000)),
		"system_role":      scalar(r, &p.SystemRole, oneOf("system", "developer", "user")),
		"parallel_calls":   scalar(r, &parallel, boolean),
		"tool_choice":      scalar(r, &p.MustCall, boolean),
		"prices": func(n *yaml.Node, key string) {
			p.Prices = map[string]Price{}
			r.pairs(n, key, func(k, v *yaml.Node, key string) {
				var price Price
				r.object(v, key, fields{
					"in":     scalar(r, &price.In, money),
					"cached": scalar(r, &price.Cached, money),
					"out":    scalar(r, &price.Out, money),
				})
				p.Prices[k.Value] = price
			})
		},
	})
	if n.Kind == yaml.MappingNode && seen["url"] == nil {
		r.fault(n, key, refuse("as in url: https://api.example.com/v1", "has no url"))
	}
	p.NoStream, p.NoStreamUsage, p.OneCall = !stream, !usage, !parallel
	return p
}
