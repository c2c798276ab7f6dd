package arch

import (
	"path"
	"strings"
)

// levels is the package map: a package imports lower levels only, never a
// peer. A folder below one of these is a room of that house: the house imports
// its rooms, a room imports neither the house nor another room of it.
func levels() map[string]int {
	return map[string]int{
		"cmd": 7, // every command below it

		"workflows":    6,
		"internal/web": 6,
		"internal/lab": 6,
		"internal/sim": 6,

		"bot": 5,

		"agents": 4,

		"queue": 3,
		"green": 3,

		"internal/merge":   2,
		"internal/verify":  2,
		"internal/journal": 2,

		"internal/git":       1,
		"internal/config":    1,
		"internal/gittest":   1,
		"internal/modeltest": 1,
		"internal/hubtest":   1,
		"internal/sample":    2,

		"internal/proc": 0,
		"internal/arch": 0,
	}
}

// doublesFrom is the lowest level that uses doubles outside tests: the demo and
// the lab stand there.
const doublesFrom = 6

// double reports whether a package stands in for the world outside. Any test
// may import it.
func double(pkg string) bool {
	return strings.HasSuffix(pkg, "test") || pkg == "internal/sample" || pkg == "internal/sim"
}

// testsOnly are packages that nothing but a test or another double imports.
func testsOnly(pkg string) bool { return pkg == "internal/gittest" }

// A dependency is a module outside this one and who may import it.
type dependency struct {
	path string
	only []string // packages; empty: all
	test bool     // from tests only
}

func dependencies() []dependency {
	return []dependency{
		{path: "github.com/go-git/go-git", only: []string{"internal/git"}},
		{path: "github.com/go-git/go-billy", only: []string{"internal/git"}},
		{path: "golang.org/x/crypto", only: []string{"internal/git"}},
		{path: "go.yaml.in/yaml", only: []string{"internal/config", "agents"}},
		{path: "github.com/openai/openai-go", only: []string{"agents/model"}},
		{path: "github.com/google/go-github", only: []string{"bot"}},
		{path: "github.com/bradleyfalzon/ghinstallation", only: []string{"bot"}},
		{path: "github.com/robfig/cron", only: []string{"workflows"}},
		{path: "github.com/rs/zerolog"},
		{path: "golang.org/x/sync/errgroup"},
		{path: "github.com/google/go-cmp", test: true},
		{path: "github.com/rogpeppe/go-internal", test: true},
		{path: "pgregory.net/rapid", test: true},
	}
}

// A restriction is a package of the standard library that few may import.
type restriction struct {
	path string
	only []string
	main bool // commands may too
	why  string
}

func restrictions() []restriction {
	return []restriction{
		{path: "os/exec", only: []string{"internal/proc"}, why: "only internal/proc starts processes"},
		{path: "os/signal", main: true, why: "only main listens for signals"},
		{path: "flag", main: true, why: "only main reads flags"},
		{path: "log", why: "zerolog.Ctx(ctx) is the logger"},
		{path: "log/slog", why: "zerolog.Ctx(ctx) is the logger"},
		{path: "unsafe", why: "nothing here needs it"},
		{path: "C", why: "the binary is static"},
		{path: "encoding/json/v2", why: "it is an experiment"},
	}
}

// levelOf is the level of a package or of the house it is a room of.
func levelOf(pkg string) (int, bool) {
	all := levels()
	for ; pkg != "."; pkg = path.Dir(pkg) {
		if level, ok := all[pkg]; ok {
			return level, true
		}
	}
	return 0, false
}

// inside reports whether pkg is dir or lies in it.
func inside(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }
