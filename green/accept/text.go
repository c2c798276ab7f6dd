package accept

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
)

// IsTest reports whether a path looks like a test, in the usual languages.
func IsTest(name string) bool {
	base := path.Base(name)
	for _, glob := range []string{"*_test.*", "test_*", "*.test.*", "*.spec.*", "*_spec.*", "*Test.*", "*Tests.*", "*IT.java", "*.t"} {
		if ok, err := path.Match(glob, base); err == nil && ok {
			return true
		}
	}
	for dir := range strings.SplitSeq(path.Dir(name), "/") {
		if slices.Contains([]string{"test", "tests", "__tests__", "spec", "testdata", "e2e"}, dir) {
			return true
		}
	}
	return false
}

// testsWithin reports whether a file of code has its tests in it, as in Rust.
func testsWithin(text []byte) bool { return bytes.Contains(text, []byte("#[cfg(test)]")) }

// judges are the paths that say what is judged, wherever a repository has them.
func judges() []string {
	return []string{
		".greenward/**", ".github/**", ".ci/**", ".gitlab-ci.yml", ".circleci/**", ".buildkite/**", ".travis.yml", "Jenkinsfile",
		"azure-pipelines.yml", ".gitattributes", "**/.gitattributes", ".gitmodules",
	}
}

// runners are the files that settle which tests run and with which tools.
func runners() []string {
	return []string{
		"**/conftest.py", "**/pytest.ini", "**/tox.ini", "**/setup.cfg", "**/jest.config.*", "**/vitest.config.*", "**/karma.conf.*",
		"**/.mocharc*", "**/phpunit.xml*", "**/.rspec", "**/nextest.toml", "**/.golangci.*", "**/.eslintrc*", "**/eslint.config.*",
		"**/.eslintignore", "**/codecov.yml", "**/*skiplist*", "**/*skip_list*", "**/*.skip",
		"**/.tool-versions", "**/.nvmrc", "**/.node-version", "**/.python-version", "**/.ruby-version", "**/.go-version", "**/rust-toolchain*",
	}
}

// goldens are expected results.
func goldens() []string {
	return []string{"**/testdata/**", "**/golden/**", "**/*.golden", "**/__snapshots__/**", "**/*.snap"}
}

// interpreters run the file that they are given.
func interpreters() []string {
	return []string{"sh", "bash", "dash", "zsh", "ksh", "source", ".", "exec", "env", "python", "python3", "node", "ruby", "perl", "php", "deno", "bun", "make", "time", "timeout", "nice"}
}

// builders are the files that some commands run without naming them.
func builders() map[string][]string {
	return map[string][]string{
		"make": {"Makefile", "GNUmakefile", "makefile"}, "just": {"justfile", "Justfile"}, "task": {"Taskfile.yml", "Taskfile.yaml"},
		"npm": {"package.json"}, "yarn": {"package.json"}, "pnpm": {"package.json"}, "rake": {"Rakefile"}, "bazel": {".bazelrc"},
	}
}

// runs reports whether one of some commands runs a file.
func runs(commands []string, name string) bool {
	for _, command := range commands {
		running := true // the next word is what is run
		for word := range strings.FieldsSeq(breaks().ReplaceAllString(command, " ; ")) {
			word = strings.Trim(word, `"'`)
			bare := path.Base(word)
			switch {
			case word == ";":
				running = true
			case running && path.Clean(word) == name, running && slices.Contains(builders()[bare], name):
				return true
			case running && (slices.Contains(interpreters(), bare) || strings.HasPrefix(word, "-") || strings.Contains(word, "=")):
			default:
				running = false
			}
		}
	}
	return false
}

func breaks() *regexp.Regexp { return regexp.MustCompile(`[;&|(){}\n]+|\b(then|do|else|if|while)\b`) }

// counting is a pattern whose number in a file must not rise, or must not fall in a test.
type counting struct {
	rule    string
	pattern *regexp.Regexp
	more    bool // a rise is what is refused; else a fall
	says    string
}

func (c counting) count(text []byte) int {
	if bytes.IndexByte(text, 0) >= 0 {
		return 0
	}
	return len(c.pattern.FindAllIndex(text, -1))
}

func counted() []counting {
	return []counting{
		{
			Skip, regexp.MustCompile(`\b[tb]b?\.Skip(Now|f)?\(|testing\.Short\(\)|@(unittest\.)?skip|pytest\.(mark\.)?(skip|xfail|importorskip)|\bself\.skipTest\(` +
				`|\b(it|test|describe|context|suite)\.(skip|only|todo|fixme|failing)\b|\bx(it|test|describe)\(|@Ignore\b|@Disabled\b|#\[ignore|\bpending\(` +
				`|(?m:^//go:build )|(?m:^//\s*\+build )|\bmarkTestSkipped\(|#\s*(?i:skip|todo)\b.*$|(?i:\bok\b.*#\s*skip)`),
			true, "skips a test that was not skipped before",
		},
		{
			FewerTests, regexp.MustCompile(`(?m)^func (Test|Fuzz|Example|Benchmark)\w*\(|^\s*(async )?def test_\w*|^\s*(it|test)\(|^\s*@Test\b|#\[(tokio::)?test\]|\b[tb]\.Run\(`),
			false, "has fewer tests than before",
		},
		{
			FewerAssertions, regexp.MustCompile(`\b[tb]b?\.(Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(|\b(assert|require|is|should|must)\.\w+\(|\bcmp\.Diff\(` +
				`|(?m:^\s*(assert|should)\b)|\b(EXPECT|ASSERT)_\w+\(|\bself\.assert\w*\(|\bpytest\.raises\(|\bexpect\(|\bassert\w*!?\(|\bpanic!?\(`),
			false, "has fewer assertions than before",
		},
	}
}

// suspicion is a pattern that a person has to weigh in lines that are new.
type suspicion struct {
	rule    string
	pattern *regexp.Regexp
	says    string
}

func suspicions() []suspicion {
	return []suspicion{
		{
			Environment, regexp.MustCompile(`\bos\.(Getenv|LookupEnv|Environ|environ|getenv)\b|\bprocess\.env\b|\bgetenv\(|\bENV\[|System\.getenv|\benv::var|\benv!\(` +
				`|\$\{?(CI|GITHUB_\w+|GREENWARD\w*)\b|\btesting\.(Testing|CoverMode|Verbose)\(\)|sys\.modules|\bflag\.Lookup\("test`),
			"looks at where it runs",
		},
		{
			Retry, regexp.MustCompile(`(?i)\bsleep\b|\bsetTimeout\(|\bretr(y|ies|ied)\w*\b|\battempts?\b|\b(Eventually|waitFor)\(|\bflaky\b|\brerun`),
			"waits or tries again",
		},
		{
			Swallow, regexp.MustCompile(`\|\|\s*(true|:)(\s|;|$)|\brecover\(\)|\b(os\.Exit|sys\.exit|process\.exit)\(0?\)|^exit 0\b|\bset \+e\b|\bcontinue-on-error\b|^except.*:\s*pass\b|\bcatch\s*(\(\w*\))?\s*\{\s*\}|^func TestMain\(`),
			"swallows a failure",
		},
	}
}

func tolerance() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(toleran|epsilon|\beps\b|delta|approx|almost|within|threshold|margin|\brtol\b|\batol\b|places|closeTo|precision)`)
}

func number() *regexp.Regexp { return regexp.MustCompile(`\d[\d_.]*(e[-+]?\d+)?`) }

func isComment(line string) bool {
	for _, head := range []string{"//", "# ", "/*", "* ", "-- ", "<!--"} {
		if strings.HasPrefix(line, head) {
			return true
		}
	}
	return false
}
