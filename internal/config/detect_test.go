package config

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func detect(files map[string]string) []byte {
	return Detect(slices.Sorted(maps.Keys(files)), func(path string) ([]byte, error) {
		if data, ok := files[path]; ok {
			return []byte(data), nil
		}
		return nil, fs.ErrNotExist
	})
}

func TestDetect(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []string // name: run
	}{
		{"nothing", nil, nil},
		{"a text", map[string]string{"README": "x", "docs/go.mod": "module x"}, nil},
		{"go", map[string]string{"go.mod": "module x"}, []string{"build: go build ./...", "vet: go vet ./...", "test: go test ./..."}},
		{"go with tests", map[string]string{"go.mod": "module x", "b/a_test.go": "package b"}, []string{"build: go build ./...", "vet: go vet ./...", "test: go test ./..., by its report"}},
		{"node", map[string]string{"package.json": `{"scripts": {"test": "jest", "lint": "eslint ."}}`, "package-lock.json": "{}"}, []string{
			"lint: npm ci --no-audit --no-fund && npm run lint", "test: npm ci --no-audit --no-fund && npm run test",
		}},
		{"node as it comes", map[string]string{"package.json": `{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}`}, nil},
		{"node, malformed", map[string]string{"package.json": `{`}, nil},
		{"pnpm", map[string]string{"package.json": `{"scripts": {"build": "vite build"}}`, "pnpm-lock.yaml": ""}, []string{"build: pnpm install --frozen-lockfile && pnpm run build"}},
		{"rust", map[string]string{"Cargo.toml": "[workspace]"}, []string{"build: cargo build --workspace --all-targets", "test: cargo test --workspace"}},
		{"python", map[string]string{"pyproject.toml": "[tool.pytest.ini_options]\n[tool.ruff]\n", "a.py": ""}, []string{"test: python3 -m pytest", "lint: ruff check"}},
		{"python without a project", map[string]string{"test_a.py": ""}, []string{"test: python3 -m unittest discover"}},
		{"python without tests", map[string]string{"pyproject.toml": "", "a.py": ""}, nil},
		{"maven", map[string]string{"pom.xml": "", "mvnw": ""}, []string{"test: sh ./mvnw --batch-mode verify"}},
		{"gradle", map[string]string{"build.gradle.kts": ""}, []string{"test: gradle --no-daemon check"}},
		{"dotnet", map[string]string{"App.sln": ""}, []string{"test: dotnet test"}},
		{"make", map[string]string{"Makefile": "test := no\nall check: a b\n\ttest: no\n"}, []string{"test: make check"}},
		{"cmake", map[string]string{"CMakeLists.txt": "", "Makefile": "all:\n"}, []string{"test: cmake -B build && cmake --build build && ctest --test-dir build"}},
		{"two languages", map[string]string{"go.mod": "", "Makefile": "test:\n", "Cargo.toml": ""}, []string{
			"build: go build ./...", "vet: go vet ./...", "test: go test ./...", "rust-build: cargo build --all-targets", "rust-test: cargo test",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := detect(tt.files)
			c, err := Parse(file)
			if err != nil {
				t.Fatalf("Parse: %v\n%s", err, file)
			}
			var got []string
			for _, k := range c.Checks {
				if k.Report == "go-json" {
					k.Run += ", by its report"
				}
				got = append(got, k.Name+": "+k.Run)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("checks (-want +got):\n%s", diff)
			}
			if c.ChecksNone != (len(tt.want) == 0) {
				t.Errorf("ChecksNone = %v in\n%s", c.ChecksNone, file)
			}
		})
	}
}

// TestDetectedCommentsAreGood uncomments every example and reads it.
func TestDetectedCommentsAreGood(t *testing.T) {
	for _, files := range []map[string]string{nil, {"go.mod": "module x"}} {
		var lines []string
		for line := range strings.Lines(string(detect(files))) {
			body, comment := strings.CutPrefix(line, "# ")
			if comment && !strings.HasPrefix(body, " ") && !strings.HasPrefix(body, "checks:") && !strings.HasPrefix(body, "queue:") && !strings.HasPrefix(body, "green:") {
				continue
			}
			if len(files) == 0 && line == "checks: none\n" {
				continue
			}
			lines = append(lines, body)
		}
		if _, err := Parse([]byte(strings.Join(lines, ""))); err != nil {
			t.Errorf("Parse: %v\n%s", err, strings.Join(lines, ""))
		}
	}
}

// TestDetectAlwaysParses draws repositories with any of the files in any state.
func TestDetectAlwaysParses(t *testing.T) {
	known := []string{
		"go.mod", "package.json", "package-lock.json", "yarn.lock", "bun.lock", "Cargo.toml", "pyproject.toml", "tox.ini", "setup.cfg", "conftest.py",
		"tests/test_a.py", "ruff.toml", "pom.xml", "mvnw", "build.gradle", "gradlew", "App.csproj", "Makefile", "CMakeLists.txt",
	}
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.MapOf(rapid.SampledFrom(known), rapid.OneOf(
			rapid.String(), rapid.Just(`{"scripts": {"build": "x", "test": "y", "lint": "z"}}`),
			rapid.Just("test: a\n"), rapid.Just("[tool.ruff]\n[workspace]\n"),
		)).Draw(t, "files")
		file := detect(files)
		c, err := Parse(file)
		if err != nil {
			t.Fatalf("Parse: %v\n%s", err, file)
		}
		if err := c.NeedChecks(); err != nil {
			t.Fatalf("NeedChecks: %v\n%s", err, file)
		}
	})
}
