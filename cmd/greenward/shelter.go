package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"greenward/agents"
	"greenward/agents/cache"
	"greenward/agents/cell"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/proc"
	"greenward/internal/verify"
)

// agentWeight is an agent's share of a busy processor: a quarter of what greenward
// and people have.
const agentWeight = 256

// cells finds out how commands can be confined here.
func (a *app) cells(ctx context.Context, policy config.Agents) (*cell.Cells, error) {
	l := policy.Limits
	return cell.New(ctx, cell.Options{Host: a.host, Want: policy.Sandbox, Limits: cell.Limits{
		Limits:   proc.Limits{Memory: l.Memory, Processes: l.Processes, CPUs: l.CPUs, IO: l.IO, Weight: agentWeight},
		FileSize: l.FileSize,
	}})
}

// seenWorkspace is where every agent sees its workspace, in a sandbox: build
// caches that know a file by its path then serve all of them.
const seenWorkspace = "/workspace"

// shelter is how the commands of agents are confined on a hub.
type shelter struct {
	cells   *cell.Cells
	env     []string     // of commands: the toolchains it names can be read
	person  string       // the home of whoever started greenward
	home    []string     // paths below person that agents' homes show
	network bool         // the machine's network
	caches  []cell.Cache // build caches that all agents write
	hidden  []string     // the hub, and the repository that it is in
	shelf   *cache.Shelf // build caches that all read and each writes apart; nil: none
	lent    []cache.Loan // of the shelf, where they are lent already
}

func (a *app) shelter(cells *cell.Cells, policy config.Agents, env []string, hub string) shelter {
	s := shelter{cells: cells, env: env, person: a.host.Get("HOME"), network: policy.Network, hidden: hidden(hub)}
	if cells.Sandboxed() {
		s.caches = shared(env, policy.Caches, "shared", ofAgents)
	}
	return s
}

// hidden is what no command of an agent or a check is shown: the hub with its key, and
// the repository of a clone, whose settings may hold a way in.
func hidden(hub string) []string {
	if above := filepath.Dir(hub); filepath.Base(above) == "greenward" {
		return []string{filepath.Dir(above)}
	}
	return []string{hub}
}

// layer has the caches that the policy wants layered written apart by each workspace,
// where that can be had; else they are written by all, and it is said.
func (a *app) layer(s *shelter, policy config.Agents, state string) {
	layered := shared(s.env, policy.Caches, "layered", "")
	if len(layered) == 0 || !s.cells.Sandboxed() {
		return
	}
	var dirs []string
	for _, one := range layered {
		dirs = append(dirs, one.To)
	}
	var err error
	if s.shelf, err = cache.Open(filepath.Join(state, "work", ".caches"), dirs); err != nil {
		a.note("build caches are written by all agents alike: %v", err)
		s.caches = append(s.caches, shared(s.env, policy.Caches, "layered", ofAgents)...)
	}
}

// For is the shelter of a role, which may have the network, or something of the
// person's home, where others do not.
func (s shelter) For(role config.Role) shelter {
	s.network = s.network || role.Network
	s.home = role.Home
	return s
}

// Open makes the cell of one workspace.
func (s shelter) Open(in agents.RoomInput) (agents.Room, error) {
	loans, seen := s.lent, slices.Clone(s.caches)
	if s.shelf != nil && loans == nil {
		var err error
		if loans, err = s.shelf.Lend(filepath.Join(in.Scratch, "caches")); err != nil {
			return nil, err
		}
	}
	for _, loan := range loans {
		seen = append(seen, cell.Cache(loan))
	}
	return s.cells.Open(cell.Place{
		Dir: in.Dir, Seen: seenWorkspace, Scratch: in.Scratch, Read: in.Read,
		Caches: seen, Person: s.person, Home: s.home, Env: s.env, Network: s.network, Hidden: s.hidden,
	})
}

// lend is the shelter with caches that were lent for it.
func (s shelter) lend(loans []cache.Loan) shelter {
	s.lent = loans
	return s
}

// Seen is where commands see the workspace in dir.
func (s shelter) Seen(dir string) string {
	if s.cells.Sandboxed() {
		return seenWorkspace
	}
	return dir
}

// caches are the build caches that greenward knows, by the name that the policy
// gives them: the variable that says where, and the part of it that is the cache.
func caches() map[string]struct{ variable, part string } {
	return map[string]struct{ variable, part string }{
		"GOCACHE":    {"GOCACHE", ""},
		"GOMODCACHE": {"GOPATH", "pkg/mod"},
		"npm":        {"npm_config_cache", ""},
		"pip":        {"PIP_CACHE_DIR", ""},
		"cargo":      {"CARGO_HOME", "registry"},
		"ccache":     {"CCACHE_DIR", ""},
	}
}

// ofAgents is where, in a person's build cache, the one lies that agents write: what an
// agent wrote, no check of green's may take for a result.
const ofAgents = ".agents"

// shared lists the caches that the policy wants to be so, build caches by what lies at
// within in them; of downloads, which every build looks at, there is one. They are made
// where they are not there yet: the path must exist to be shown.
func shared(env []string, how map[string]string, want, within string) []cell.Cache {
	var list []cell.Cache
	for name, known := range caches() {
		dir := variable(env, known.variable)
		if how[name] != want || !filepath.IsAbs(dir) {
			continue
		}
		one := cell.Cache{From: filepath.Join(dir, known.part), To: filepath.Join(dir, known.part)}
		if known.part == "" {
			one.From = filepath.Join(dir, within)
		}
		if os.MkdirAll(one.From, 0o755) == nil { // else it is nobody's to share
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b cell.Cache) int { return strings.Compare(a.To, b.To) })
	return list
}

// withoutPrivate takes out of an environment where those caches are that are not
// shared: programs then keep them in the home that the cell has of its own.
func withoutPrivate(env []string, how map[string]string) []string {
	private := map[string]bool{}
	for name, known := range caches() {
		if known.part == "" && how[name] != "shared" && how[name] != "layered" {
			private[known.variable] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(env), func(pair string) bool {
		key, _, _ := strings.Cut(pair, "=")
		return private[key]
	})
}

func variable(env []string, key string) string {
	for _, pair := range env {
		if value, ok := strings.CutPrefix(pair, key+"="); ok {
			return value
		}
	}
	return ""
}

// confiner runs checks with sandbox: true.
type confiner struct {
	cells   *cell.Cells
	repo    *git.Repo
	person  string
	scratch string
}

// Confined runs a check in a cell of its own, with a home and caches that are new
// and go with it: what one change's check leaves in a cache is no evidence for the
// next.
func (c confiner) Confined(ctx context.Context, dir string, command proc.Command) (result proc.Result, err error) {
	var id [6]byte
	rand.Read(id[:]) // never fails: it would end the program instead
	scratch := filepath.Join(c.scratch, "check-"+hex.EncodeToString(id[:]))
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	read, err := c.repo.ObjectDirs()
	if err != nil {
		return proc.Result{}, err
	}
	command.Env = withoutPrivate(command.Env, nil)
	command.Env = slices.DeleteFunc(command.Env, func(pair string) bool {
		key, _, _ := strings.Cut(pair, "=")
		return strings.HasSuffix(key, "_CACHE") || strings.HasSuffix(key, "_CACHE_DIR") || key == "XDG_CACHE_HOME" || key == "GOTMPDIR"
	})
	one, err := c.cells.Open(cell.Place{Dir: dir, Scratch: scratch, Read: read, Person: c.person, Env: command.Env, Hidden: hidden(c.repo.Dir())})
	if err != nil {
		return proc.Result{}, err
	}
	result, err = one.Run(ctx, command)
	return result, errors.Join(err, one.Close())
}

// confine is what runs checks that want a sandbox; nil where none does, or where
// there is no sandbox to be had.
func (a *app) confine(ctx context.Context, p *place) (verify.Confiner, error) {
	if !slices.ContainsFunc(p.policy.Checks, func(c config.Check) bool { return c.Sandbox }) {
		return nil, nil
	}
	policy := p.policy.Agents
	policy.Sandbox = cell.Auto // a check says for itself what it wants
	cells, err := a.cells(ctx, policy)
	if err != nil {
		return nil, fmt.Errorf("look for a sandbox: %w", err)
	}
	if !cells.Sandboxed() {
		a.note("checks with sandbox: true cannot be judged here: %s", cells)
		return nil, nil
	}
	return confiner{cells: cells, repo: p.hub.Repo, person: a.host.Get("HOME"), scratch: filepath.Join(p.hub.State(), "cells")}, nil
}
