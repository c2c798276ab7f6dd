// Package bors reads a bors.toml as its users left it: what greenward keeps of it
// is kept, what it does otherwise is told, and nothing of it can stop greenward.
//
// It owns that file's form and no rule. The reader knows as much TOML as such files
// use: bare keys, strings, arrays of strings, numbers, booleans, tables, comments.
package bors

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Name is the file's, at the top of the repository.
const Name = "bors.toml"

// maxFile is how many bytes of it are read.
const maxFile = 64 << 10

// Config is what is kept.
type Config struct {
	PRStatus       []string // checks that must have passed on the head
	BlockLabels    []string
	Approvals      int  // reviews by people who may write
	UpToDate       bool // a review of an older head does not count
	DeleteBranches bool // delete a head that has landed
	Notes          []string
}

// Read reads a bors.toml. A line that is not understood is noted and left out.
func Read(data []byte) Config {
	var c Config
	if len(data) > maxFile {
		data = data[:maxFile]
		c.note("it is longer than %d bytes: the rest was not read", maxFile)
	}
	for _, p := range pairs(string(data)) {
		c.set(p)
	}
	return c
}

func (c *Config) note(format string, args ...any) {
	if len(c.Notes) < 20 {
		c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
	}
}

func (c *Config) set(p pair) {
	ok := true
	switch p.key {
	case "pr_status":
		c.PRStatus, ok = p.list()
	case "block_labels":
		c.BlockLabels, ok = p.list()
	case "required_approvals":
		n, err := strconv.Atoi(p.value)
		c.Approvals, ok = min(max(n, 0), 6), err == nil
	case "up_to_date_approvals":
		c.UpToDate, ok = p.value == "true", p.value == "true" || p.value == "false"
	case "delete_merged_branches":
		c.DeleteBranches, ok = p.value == "true", p.value == "true" || p.value == "false"
	case "status":
		c.note("status: what the merged commit must pass are the checks of .greenward.yml; a check of GitHub's is named there with remote")
	case "use_squash_merge":
		if p.value == "true" {
			c.note("use_squash_merge: set queue.method to squash in .greenward.yml")
		}
	case "use_codeowners":
		if p.value == "true" {
			c.note("use_codeowners: demand reviews of code owners in the branch's protection")
		}
	case "timeout_sec", "prerun_timeout_sec", "max_batch_size", "cut_body_after", "committer.name", "committer.email", "commit_title", "update_base_for_deletes":
		// What these set is done otherwise here and needs no setting.
	default:
		c.note("line %d: %s is not known", p.line, strconv.Quote(p.key))
	}
	if !ok {
		c.note("line %d: the value of %s is not understood", p.line, p.key)
	}
	if slices.ContainsFunc(c.PRStatus, func(s string) bool { return strings.Contains(s, "%") }) {
		c.note("pr_status: a name with %% is taken as it is, not as a pattern")
	}
}

// pair is one assignment; value is its text without comments.
type pair struct {
	key, value string
	line       int
}

// pairs splits a file into assignments, arrays over several lines joined.
func pairs(text string) []pair {
	var list []pair
	table := ""
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(plain(lines[i]))
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			table = strings.Trim(line, "[] ") + "."
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			if line != "" {
				list = append(list, pair{key: line, line: i + 1})
			}
			continue
		}
		p := pair{table + strings.Trim(strings.TrimSpace(key), `"'`), strings.TrimSpace(value), i + 1}
		for strings.HasPrefix(p.value, "[") && !strings.HasSuffix(p.value, "]") && i+1 < len(lines) {
			i++
			p.value = strings.TrimSpace(p.value + " " + strings.TrimSpace(plain(lines[i])))
		}
		list = append(list, p)
	}
	return list
}

// plain is a line without its comment; a # in a string is none.
func plain(line string) string {
	var open rune
	for i, r := range line {
		switch {
		case open == 0 && r == '#':
			return line[:i]
		case open == 0 && (r == '"' || r == '\''):
			open = r
		case r == open:
			open = 0
		}
	}
	return line
}

// list reads an array of strings.
func (p pair) list() ([]string, bool) {
	inner, ok := strings.CutPrefix(p.value, "[")
	if ok {
		inner, ok = strings.CutSuffix(inner, "]")
	}
	if !ok {
		return nil, false
	}
	var list []string
	for inner = strings.TrimSpace(inner); inner != ""; inner = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(inner), ",")) {
		quote := inner[0]
		end := strings.IndexByte(inner[1:], quote)
		if quote != '"' && quote != '\'' || end < 0 {
			return nil, false
		}
		list, inner = append(list, inner[1:end+1]), inner[end+2:]
	}
	return list, true
}
