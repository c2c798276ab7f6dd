package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"greenward/internal/config"
	"greenward/internal/git"
)

// maxFixFile bounds a file that a repair may add or change.
const maxFixFile = 1 << 20

// vet says which rule a repair breaks, or "". The rules are mechanical: they see
// how a patch looks, not what it means, and are there for the cheap ways out.
func (r *repair) vet(ctx context.Context, tree git.Hash) (string, error) {
	clone := r.ws.Repo()
	paths, err := clone.ChangedPaths(ctx, r.base, tree)
	if err != nil {
		return "", err
	}
	most := r.MaxFiles
	if most == 0 {
		most = 20
	}
	switch {
	case len(paths) == 0:
		return "nothing is changed", nil
	case len(paths) > most:
		return fmt.Sprintf("%d files are touched; at most %d are taken. Make a smaller repair", len(paths), most), nil
	}
	for _, name := range paths {
		if refusal, err := r.vetPath(name, tree); refusal != "" || err != nil {
			return refusal, err
		}
	}
	return r.vetSize(ctx, tree)
}

func (r *repair) vetPath(name string, tree git.Hash) (string, error) {
	protected := func(glob string) bool { return config.Match(glob, name) }
	switch {
	case name == config.File || name == config.FallbackFile || slices.ContainsFunc(r.in.Protected, protected):
		return fmt.Sprintf("%q is protected and must stay as it is", name), nil
	case strings.HasPrefix(name, "tasks/"):
		return fmt.Sprintf("%q: a repair never touches tasks/", name), nil
	}
	before, after, err := r.versions(name, tree)
	if errors.Is(err, errNoFile) {
		return fmt.Sprintf("%q is no regular file any more", name), nil
	}
	if err != nil {
		return "", err
	}
	switch {
	case after == nil && isTest(name):
		return fmt.Sprintf("test file %q is deleted", name), nil
	case after == nil:
		return "", nil
	case len(after) > maxFixFile:
		return fmt.Sprintf("%q has %d bytes; at most %d are taken", name, len(after), maxFixFile), nil
	case hasMarkers(after) && !hasMarkers(before):
		return fmt.Sprintf("%q holds conflict markers", name), nil
	}
	for _, rule := range weakenings() {
		if was, is := rule.count(before), rule.count(after); is > was && rule.more || is < was && !rule.more && isTest(name) {
			return fmt.Sprintf("%q %s", name, rule.says), nil
		}
	}
	return "", nil
}

var errNoFile = errors.New("no regular file")

// versions is a file before and after; nil where it is not there.
func (r *repair) versions(name string, tree git.Hash) (before, after []byte, err error) {
	clone := r.ws.Repo()
	before, err = clone.File(r.base, name)
	if err != nil && !errors.Is(err, git.ErrNotFound) {
		return nil, nil, err
	}
	entry, err := clone.Lookup(tree, name)
	if errors.Is(err, git.ErrNotFound) {
		return before, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if entry.Mode != git.ModeFile && entry.Mode != git.ModeExecutable {
		return nil, nil, errNoFile
	}
	after, err = clone.Blob(entry.Hash)
	if after == nil {
		after = []byte{}
	}
	return before, after, err
}

// isTest reports whether a path looks like a test, in the usual languages.
func isTest(name string) bool {
	base := path.Base(name)
	for _, glob := range []string{"*_test.*", "test_*", "*.test.*", "*.spec.*", "*_spec.*", "*Test.*", "*Tests.*", "*IT.java"} {
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

// weakening is a pattern whose number in a file must not rise, or not fall in a test.
type weakening struct {
	pattern *regexp.Regexp
	more    bool // a rise is what is refused; else a fall
	says    string
}

func (w weakening) count(text []byte) int {
	if bytes.IndexByte(text, 0) >= 0 {
		return 0
	}
	return len(w.pattern.FindAllIndex(text, -1))
}

func weakenings() []weakening {
	return []weakening{
		{
			regexp.MustCompile(`\b[tb]b?\.Skip(Now|f)?\(|testing\.Short\(\)|@(unittest\.)?skip|pytest\.(mark\.)?(skip|xfail)|\bself\.skipTest\(` +
				`|\b(it|test|describe|context)\.(skip|todo|fixme)\b|\bx(it|test|describe)\(|@Ignore\b|@Disabled\b|#\[ignore|\bpending\(|^//go:build ignore|(?m:^//\s*\+build ignore)`),
			true, "skips a test that was not skipped before",
		},
		{regexp.MustCompile(`(?m)^func (Test|Fuzz)\w*\(|^\s*(async )?def test_\w*|^\s*(it|test)\(|^\s*@Test\b|#\[(tokio::)?test\]`), false, "has fewer tests than before"},
	}
}

// vetSize holds a repair to its budget of lines.
func (r *repair) vetSize(ctx context.Context, tree git.Hash) (string, error) {
	patch, err := r.ws.Repo().Diff(ctx, r.base, tree)
	if err != nil {
		return "", err
	}
	lines := 0
	for line := range bytes.SplitSeq(patch, []byte("\n")) {
		if len(line) > 0 && (line[0] == '+' || line[0] == '-') && !bytes.HasPrefix(line, []byte("+++ ")) && !bytes.HasPrefix(line, []byte("--- ")) {
			lines++
		}
	}
	most := r.MaxLines
	if most == 0 {
		most = 400
	}
	if lines > most {
		return fmt.Sprintf("%d lines are added or removed; at most %d are taken. Make a smaller repair", lines, most), nil
	}
	return "", nil
}
