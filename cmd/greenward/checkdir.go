package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// checkDir is where the checks of a clone's hub run: in the person's cache. Below
// the clone's own .git every tool that looks for its files upward (cargo, node,
// go.work) would meet the working tree. Empty, which means inside the hub: the hub
// stands alone, or there is no cache to be had.
func (a *app) checkDir(p *place) string {
	if p.hub.Clone() == nil {
		return ""
	}
	cache := a.host.Get("XDG_CACHE_HOME")
	if home := a.host.Get("HOME"); !filepath.IsAbs(cache) && filepath.IsAbs(home) {
		cache = filepath.Join(home, ".cache")
	}
	if !filepath.IsAbs(cache) {
		return ""
	}
	hub := sha256.Sum256([]byte(p.hub.Dir()))
	dir := filepath.Join(cache, "greenward", fmt.Sprintf("%x", hub[:8]), "work")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		a.note("checks run inside the clone: %v", err)
		return ""
	}
	return dir
}
