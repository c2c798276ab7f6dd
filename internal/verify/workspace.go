package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/proc"
)

// prepare puts fresh content into the slot: the subject's tree as one commit, or
// its history. What a killed process left there is ended and removed first.
func (s slot) prepare(ctx context.Context, repo *git.Repo, on Subject, history bool) error {
	if _, err := os.Lstat(s.dir); err == nil {
		if _, err := proc.Sweep(ctx); err != nil {
			return fmt.Errorf("end what an earlier run left: %w", err)
		}
		if err := s.clear(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return fmt.Errorf("make the workspace: %w", err)
	}
	in := git.ExportInput{
		Dir: s.dir, Tree: on.Tree, Message: "snapshot\n",
		Author: git.Identity{Name: "greenward", Email: "greenward@localhost", When: time.Unix(0, 0).UTC()},
	}
	if history {
		in.Commit = on.Commit
	}
	if err := repo.Export(ctx, in); err != nil {
		return fmt.Errorf("fill the workspace: %w", err)
	}
	return nil
}

// clear removes the workspace, directories without write permission (such as a
// module cache) included.
func (s slot) clear() error {
	if err := os.RemoveAll(s.dir); err == nil {
		return nil
	}
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			if err := os.Chmod(path, 0o700); err != nil {
				return err
			}
		}
		if err != nil && (d == nil || !d.IsDir()) {
			return err
		}
		return nil
	})
	if err := errors.Join(err, os.RemoveAll(s.dir)); err != nil {
		if _, gone := os.Lstat(s.dir); errors.Is(gone, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("remove the old workspace: %w", err)
	}
	return nil
}

// passed lists the variables of the machine that a check sees: paths, language,
// caches, toolchains, proxies and certificates. Everything else is withheld, and
// so is any of these whose value is a URL with credentials.
func passed() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ",
		"LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
		"XDG_CACHE_HOME",
		"GOROOT", "GOPATH", "GOCACHE", "GOMODCACHE", "GOTMPDIR", "GOFLAGS", "GOTOOLCHAIN", "GOPROXY", "GONOPROXY", "GOSUMDB", "GONOSUMDB",
		"GOPRIVATE", "GOINSECURE", "GOVCS", "CGO_ENABLED", "CC", "CXX", "GOLANGCI_LINT_CACHE", "STATICCHECK_CACHE",
		"npm_config_cache", "NPM_CONFIG_CACHE", "npm_config_registry", "NPM_CONFIG_REGISTRY", "YARN_CACHE_FOLDER", "PNPM_HOME", "NVM_DIR",
		"CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "SCCACHE_DIR", "CCACHE_DIR",
		"PIP_CACHE_DIR", "PIP_INDEX_URL", "UV_CACHE_DIR", "UV_INDEX_URL", "VIRTUAL_ENV", "PYENV_ROOT",
		"JAVA_HOME", "GRADLE_USER_HOME", "MAVEN_HOME", "GEM_HOME", "BUNDLE_PATH",
		"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	}
}

// environment is the whole environment of a check. git reads no configuration
// of the user or the machine and never looks for a repository above the
// workspace, which lies inside the hub.
func (r *Runner) environment(dir string, again bool) []string {
	vars := map[string]string{}
	for _, pair := range r.Host.Only(passed()...) {
		if key, value, _ := strings.Cut(pair, "="); !hasCredentials(value) {
			vars[key] = value
		}
	}
	maps.Copy(vars, r.Caches)
	vars["GIT_CONFIG_NOSYSTEM"] = "1"
	vars["GIT_CONFIG_GLOBAL"] = "/dev/null"
	vars["GIT_TERMINAL_PROMPT"] = "0"
	vars["GIT_CEILING_DIRECTORIES"] = filepath.Dir(dir)
	vars["TERM"] = "dumb"
	if again {
		// A re-run that go test answers from its cache is no evidence.
		vars["GOFLAGS"] = strings.TrimSpace(vars["GOFLAGS"] + " -count=1")
	}
	if foreignWork(dir) {
		vars["GOWORK"] = "off"
	}
	env := make([]string, 0, len(vars))
	for key, value := range vars {
		env = append(env, key+"="+value)
	}
	slices.Sort(env)
	return env
}

// hasCredentials reports whether a value holds a URL with a user part.
func hasCredentials(value string) bool {
	for part := range strings.SplitSeq(value, "://") {
		authority, _, _ := strings.Cut(part, "/")
		if part != value && strings.Contains(authority, "@") {
			return true
		}
	}
	return false
}

// foreignWork reports whether go would take a go.work that lies above the
// workspace, such as one in the clone whose .git holds the hub.
func foreignWork(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, "go.work")); err == nil {
		return false
	}
	for up := filepath.Dir(dir); up != filepath.Dir(up); up = filepath.Dir(up) {
		if _, err := os.Stat(filepath.Join(up, "go.work")); err == nil {
			return true
		}
	}
	return false
}

// reporterFor is how a check's report is read, or nil when it declares none.
func reporterFor(check config.Check, dir string, text *proc.Capture) (reporter, error) {
	glob, isJUnit := strings.CutPrefix(check.Report, "junit:")
	switch {
	case isJUnit:
		return newJUnitReport(dir, glob)
	case check.Report == "go-json":
		return newGoReport(text), nil
	case check.Report == "tap":
		return newTapReport(), nil
	case check.Report == "" || check.Report == "none":
		return nil, nil //nolint:nilnil // no report is a fine answer
	}
	return nil, fmt.Errorf("report %q is not known", check.Report)
}
