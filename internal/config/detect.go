package config

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Detect writes the policy that fits a repository: the checks that its build
// files ask for, with a word on where each came from, or `checks: none` with an
// example. files are the paths of the tree; read gives a file's content, and a
// file that cannot be read only makes the guess poorer. The result always
// parses.
func Detect(files []string, read func(path string) ([]byte, error)) []byte {
	d := detector{files: files, read: read}
	d.all()
	var b strings.Builder
	b.WriteString("# What lands on main, and what green promises. Every key: docs/policy.md of greenward.\n")
	b.WriteString("# An unknown key is an error. Checks run as `sh -c` at the top of a fresh copy.\n")
	if len(d.found) == 0 {
		b.WriteString(`
# No build file that greenward knows was found. With none, everything that merges
# counts as green. To have it judged, replace the next line with checks of your own:
#
# checks:
#   - {name: build, run: make, timeout: 5m}
#   - {name: test, run: make test, timeout: 15m}
checks: none
`)
		return []byte(b.String())
	}
	b.WriteString("\nchecks:\n")
	for _, f := range d.found {
		fmt.Fprintf(&b, "  # %s\n  - name: %s\n    run: %s\n", f.why, f.name, f.run)
		if f.report != "" {
			fmt.Fprintf(&b, "    report: %s\n", f.report)
		}
		if f.optional {
			b.WriteString("    required: false\n")
		}
	}
	b.WriteString(`
# queue:
#   policy: adaptive   # tolerant | gated | adaptive
#   method: rebase     # rebase | squash | merge
# green:
#   schedule: "*/10 * * * *"
`)
	return []byte(b.String())
}

type detector struct {
	files []string
	read  func(string) ([]byte, error)
	found []finding
}

// A finding is one check and the reason for it. Its texts are ours, never the
// repository's, so that they need no quoting.
type finding struct {
	name, run, report, why string
	optional               bool
}

func (d *detector) has(file string) bool { return slices.Contains(d.files, file) }

func (d *detector) any(files ...string) bool { return slices.ContainsFunc(files, d.has) }

func (d *detector) content(file string) string {
	if !d.has(file) {
		return ""
	}
	data, err := d.read(file)
	if err != nil || len(data) > 1<<20 {
		return "" // a guess goes on with less
	}
	return string(data)
}

// add takes a check in; names that are taken get the language in front.
func (d *detector) add(language string, f finding) {
	if slices.ContainsFunc(d.found, func(g finding) bool { return g.name == f.name }) {
		f.name = language + "-" + f.name
	}
	d.found = append(d.found, f)
}

func (d *detector) all() {
	d.golang()
	d.node()
	d.rust()
	d.python()
	d.jvm()
	if !d.judges() {
		d.dotnet()
		d.make()
	}
	if !d.judges() {
		d.found = nil // nothing but advice: a policy of that would call nothing green
	}
}

func (d *detector) judges() bool {
	return slices.ContainsFunc(d.found, func(f finding) bool { return !f.optional })
}

func (d *detector) golang() {
	const why = "go.mod"
	if !d.has("go.mod") {
		return
	}
	d.add("go", finding{name: "build", run: "go build ./...", why: why})
	d.add("go", finding{name: "vet", run: "go vet ./...", why: why})
	test := finding{name: "test", run: "go test ./...", report: "go-json", why: why}
	if !slices.ContainsFunc(d.files, func(f string) bool { return strings.HasSuffix(f, "_test.go") }) {
		// By its report a run without a test is no pass, and green would wait for the first one.
		test.report, test.why = "", "go.mod; with the first test add `report: go-json`, by which a run without tests is no pass"
	}
	d.add("go", test)
}

func (d *detector) node() {
	var pkg struct {
		Scripts map[string]string `json:"scripts"`
	}
	if json.Unmarshal([]byte(d.content("package.json")), &pkg) != nil {
		return
	}
	install, run := "npm install --no-audit --no-fund", "npm run "
	switch {
	case d.has("pnpm-lock.yaml"):
		install, run = "pnpm install --frozen-lockfile", "pnpm run "
	case d.has("yarn.lock"):
		install, run = "yarn install --frozen-lockfile", "yarn run "
	case d.any("bun.lock", "bun.lockb"):
		install, run = "bun install --frozen-lockfile", "bun run "
	case d.any("package-lock.json", "npm-shrinkwrap.json"):
		install = "npm ci --no-audit --no-fund"
	}
	for _, script := range []string{"build", "lint", "test"} {
		// What npm init writes for a test only fails.
		if body := pkg.Scripts[script]; body == "" || strings.Contains(body, "no test specified") {
			continue
		}
		d.add("node", finding{name: script, run: install + " && " + run + script, why: "package.json: scripts." + script, optional: script == "lint"})
	}
}

func (d *detector) rust() {
	const why = "Cargo.toml"
	if !d.has("Cargo.toml") {
		return
	}
	all := ""
	if strings.Contains(d.content("Cargo.toml"), "[workspace") {
		all = " --workspace"
	}
	d.add("rust", finding{name: "build", run: "cargo build" + all + " --all-targets", why: why})
	d.add("rust", finding{name: "test", run: "cargo test" + all, why: why})
}

func (d *detector) python() {
	project := d.content("pyproject.toml")
	tests := slices.ContainsFunc(d.files, func(f string) bool {
		base := path.Base(f)
		return strings.HasSuffix(base, ".py") && (strings.HasPrefix(base, "test_") || strings.HasSuffix(base, "_test.py"))
	})
	configured := d.any("pytest.ini", "conftest.py") || strings.Contains(project, "[tool.pytest") ||
		strings.Contains(d.content("setup.cfg"), "[tool:pytest]")
	switch {
	case d.has("tox.ini"):
		d.add("python", finding{name: "test", run: "tox", why: "tox.ini"})
	case configured || tests && d.any("pyproject.toml", "setup.py", "requirements.txt"):
		d.add("python", finding{name: "test", run: "python3 -m pytest", why: "Python with tests"})
	case tests:
		d.add("python", finding{name: "test", run: "python3 -m unittest discover", why: "Python with tests"})
	}
	if d.any("ruff.toml", ".ruff.toml") || strings.Contains(project, "[tool.ruff") {
		d.add("python", finding{name: "lint", run: "ruff check", why: "ruff's settings", optional: true})
	}
}

func (d *detector) jvm() {
	switch {
	case d.has("pom.xml"):
		run := "mvn"
		if d.has("mvnw") {
			run = "sh ./mvnw"
		}
		d.add("jvm", finding{name: "test", run: run + " --batch-mode verify", report: `"junit:**/target/surefire-reports/*.xml"`, why: "pom.xml"})
	case d.any("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"):
		run := "gradle"
		if d.has("gradlew") {
			run = "sh ./gradlew"
		}
		d.add("jvm", finding{name: "test", run: run + " --no-daemon check", report: `"junit:**/build/test-results/**/*.xml"`, why: "Gradle's build file"})
	}
}

func (d *detector) dotnet() {
	if slices.ContainsFunc(d.files, func(f string) bool {
		return !strings.Contains(f, "/") && (strings.HasSuffix(f, ".sln") || strings.HasSuffix(f, ".slnx") || strings.HasSuffix(f, ".csproj"))
	}) {
		d.add("dotnet", finding{name: "test", run: "dotnet test", why: "a .NET solution"})
	}
}

// make is for the repositories that no language's own file explains.
func (d *detector) make() {
	for _, file := range []string{"GNUmakefile", "makefile", "Makefile"} {
		targets := d.content(file)
		for _, target := range []string{"test", "check"} {
			if hasTarget(targets, target) {
				d.add("make", finding{name: "test", run: "make " + target, why: file + ": target " + target})
				return
			}
		}
	}
	if d.has("CMakeLists.txt") {
		d.add("cmake", finding{name: "test", run: "cmake -B build && cmake --build build && ctest --test-dir build", why: "CMakeLists.txt"})
	}
}

// hasTarget finds `test:` and `all test: deps`, not `test := value`.
func hasTarget(makefile, target string) bool {
	for line := range strings.Lines(makefile) {
		names, rest, ok := strings.Cut(line, ":")
		if ok && !strings.HasPrefix(line, "\t") && !strings.HasPrefix(rest, "=") && !strings.HasPrefix(rest, ":=") &&
			!strings.ContainsAny(names, "=#") && slices.Contains(strings.Fields(names), target) {
			return true
		}
	}
	return false
}
