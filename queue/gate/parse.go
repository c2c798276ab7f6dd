package gate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/proc"
)

// parses judges files of a language that is read here or by a command of the
// policy, if they are new or parsed before: what was broken may be mended in steps.
func (l *landing) parses(ctx context.Context, f file) error {
	if len(f.now) > maxParse || f.now == nil || template(f.now) {
		return nil
	}
	var checks []func([]byte) (error, error)
	if check := syntax(f.path); check != nil {
		checks = append(checks, func(data []byte) (error, error) { return check(data), nil })
	}
	for _, p := range l.rules.Parse {
		if slices.ContainsFunc(p.Paths, func(glob string) bool { return config.Match(glob, f.path) }) {
			checks = append(checks, func(data []byte) (error, error) { return l.command(ctx, p.Run, data) })
		}
	}
	for _, check := range checks {
		fault, err := check(f.now)
		if err != nil {
			return err
		}
		if fault == nil {
			continue
		}
		if before := f.before(); before != nil {
			if was, err := check(before); err != nil || was != nil {
				return err
			}
		}
		l.find("parse", f.path, "does not parse (%s): mend it", git.OneLine(fault.Error()))
		return nil
	}
	return nil
}

// parserTime bounds one command that parses a file.
const parserTime = 10 * time.Second

// command has a parser of the policy read a text: what it says against it, or why
// it could not say anything, which blames no change.
func (l *landing) command(ctx context.Context, run string, data []byte) (fault, err error) {
	said := proc.NewCapture(200, 200, nil)
	result, err := proc.Run(ctx, proc.Command{
		Name: "sh", Args: []string{"-c", run}, Dir: "/", Stdin: bytes.NewReader(data), Stdout: said, Stderr: said, Timeout: parserTime,
		Env: append(l.Repo.Host().Only("PATH", "HOME", "TMPDIR"), "LC_ALL=C"),
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("parse by %q: %w", run, err)
	case result.OK():
		return nil, nil
	case result.TimedOut || result.Signal != "" || result.Code == 126 || result.Code == 127: // not found, or not to be run
		return nil, fmt.Errorf("parse by %q: it ended with %s: %s", run, result, said)
	}
	return errors.New(cmp.Or(strings.TrimSpace(said.String()), result.String())), nil
}

// syntax is how files of a name are parsed; nil: not here.
func syntax(name string) func([]byte) error {
	base := path.Base(name)
	switch strings.ToLower(path.Ext(name)) {
	case ".go":
		if strings.HasPrefix(base, "_") || strings.HasPrefix(base, ".") {
			return nil // no Go tool reads it
		}
		return func(data []byte) error {
			_, err := parser.ParseFile(token.NewFileSet(), base, data, parser.SkipObjectResolution)
			return err
		}
	case ".json":
		return parseJSON
	case ".yml", ".yaml":
		return config.CheckYAML
	}
	return nil
}

// template reports whether a text is made into a file of its language elsewhere.
func template(data []byte) bool {
	for _, mark := range []string{"{{ ", "{{-", "{{.", "{{<", "{{%", "{% ", "{%-", "<%", "${{", "@@"} {
		if bytes.Contains(data, []byte(mark)) {
			return true
		}
	}
	return false
}

// parseJSON takes one value or several after each other, and, as the tools that
// read most .json files do, comments, commas before a closing bracket, and a byte
// order mark. An empty file is taken too.
func parseJSON(data []byte) error {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	err := parseStrict(data)
	if err != nil && parseStrict(withoutComments(data)) == nil {
		return nil
	}
	return err
}

func parseStrict(data []byte) error {
	in := json.NewDecoder(bytes.NewReader(data))
	for {
		var value json.RawMessage
		if err := in.Decode(&value); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// withoutComments blanks // and /* */ comments outside strings, and commas that
// nothing but a closing bracket follows.
func withoutComments(data []byte) []byte {
	out := make([]byte, 0, len(data))
	comma := -1 // where the last comma stands that nothing has followed yet
	for i := 0; i < len(data); i++ {
		rest := data[i:]
		switch c := data[i]; {
		case c == '"':
			end := stringEnd(rest)
			out = append(out, rest[:end]...)
			i, comma = i+end-1, -1
		case bytes.HasPrefix(rest, []byte("//")):
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			i += end - 1
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest[2:], []byte("*/"))
			if end < 0 {
				return data
			}
			i += end + 3
		default:
			if (c == '}' || c == ']') && comma >= 0 {
				out[comma] = ' '
			}
			if c == ',' {
				comma = len(out)
			} else if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
				comma = -1
			}
			out = append(out, c)
		}
	}
	return out
}

// stringEnd is the length of the string that a text begins with.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"', '\n':
			return i + 1
		}
	}
	return len(text)
}
