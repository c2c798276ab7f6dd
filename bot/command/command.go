package command

import (
	"strconv"
	"strings"
)

// Bounds of what is read.
const (
	maxCommands = 20  // of one comment
	maxPeople   = 10  // of one command
	maxTyped    = 100 // bytes of a line that are kept to be shown
	maxReason   = 200 // bytes
)

// Command is one thing that a line asks for.
type Command struct {
	Verb  Verb
	SHA   string   // the commit that a Merge names: 7 to 40 hexadecimal digits, or ""
	Level int      // of Priority
	Users []string // logins of Delegate, without @; none: the author. Reviewers that r= names
	Text  string   // the reason of Hold, Freeze, Stop, Pause; what a Hint or Unserved has to say
	Args  Args     // of Run
}

// Args are what a run may use. Zero: as the policy has it.
type Args struct {
	Workers int     // at most 1000
	Tokens  int64   // most tokens
	Dollars float64 // most US dollars
	Model   string
}

// Parse reads the commands of a comment, as its author wrote it, in order: at the
// start of a line, spoken and not quoted. names are the words that the App is
// called by, such as its slug. What only looks like a command gives a Hint, at
// most one a comment.
func Parse(body string, names ...string) []Command {
	known := dialects(names)
	var list []Command
	hinted := false
	add := func(c Command) {
		if c.Verb == Hint {
			if hinted {
				return
			}
			hinted = true
		}
		if len(list) < maxCommands {
			list = append(list, c)
		}
	}
	var s scanner
	for line := range strings.SplitSeq(strings.ReplaceAll(body, "\r\n", "\n"), "\n") {
		if s.end {
			break
		}
		if !s.spoken(line) {
			continue
		}
		for _, c := range parseLine(line, known) {
			add(c)
		}
	}
	return list
}

// parseLine gives what the first dialect that knows the line makes of it.
func parseLine(line string, known []dialect) []Command {
	words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(words) == 0 {
		return nil
	}
	if inner, ok := inCode(line); ok {
		// H42: a command alone in back quotes does nothing; say so once.
		if got := parseLine(inner, known); len(got) > 0 && got[0].Verb != Hint {
			return []Command{{Verb: Hint, Text: "A command in back quotes is not read: write it as plain text, at the start of a line."}}
		}
		return nil
	}
	first := strings.ToLower(strings.TrimRight(words[0], ":,"))
	for _, d := range known {
		for _, start := range d.starts {
			rest := words
			if start != "" {
				if first != start {
					continue
				}
				rest = words[1:]
			}
			if got, ok := d.read(rest, start); ok {
				return got
			}
		}
	}
	return guess(words, known)
}

// inCode reports whether a line is one code span and nothing else.
func inCode(line string) (string, bool) {
	line = strings.TrimSpace(line)
	inner := strings.Trim(line, "`")
	n := (len(line) - len(inner)) / 2
	return inner, n > 0 && n < 3 && line == strings.Repeat("`", n)+inner+strings.Repeat("`", n) && !strings.Contains(inner, "`")
}

// read parses the words after the start of a dialect. ok: the line is this dialect's.
func (d dialect) read(words []string, start string) (list []Command, ok bool) {
	if len(words) == 0 {
		return nil, false
	}
	for len(words) > 0 {
		if strings.HasPrefix(words[0], "@") && len(list) > 0 {
			break // the rest is said to somebody else
		}
		s, value, rest, found := d.match(words)
		if !found {
			if len(list) > 0 && start == "" || !d.several && len(list) > 0 {
				return nil, false
			}
			hint, meant := d.hint(words, start, len(list) > 0)
			if !meant {
				return nil, false // prose
			}
			return []Command{hint}, true // nothing of a line that is not understood is done
		}
		c, rest, fine := s.command(value, rest)
		if !fine {
			return []Command{{Verb: Hint, Text: "This line is not understood, so nothing of it was done: " + typed(append([]string{start}, words...))}}, true
		}
		list, words = append(list, c), rest
		if !d.several && len(words) > 0 {
			return nil, false
		}
	}
	return list, true
}

// match finds the spelling that words begin with; the longest stands first in the table.
func (d dialect) match(words []string) (s spelling, value string, rest []string, found bool) {
	for _, s := range d.words {
		parts := strings.Fields(s.word)
		if len(parts) > len(words) {
			continue
		}
		same := true
		for i, part := range parts {
			word := strings.ToLower(words[i])
			if strings.HasSuffix(part, "=") && strings.HasPrefix(word, part) && len(word) > len(part) {
				value = words[i][len(part):]
			} else if word != part {
				same = false
			}
		}
		if same {
			return s, value, words[len(parts):], true
		}
		value = ""
	}
	return spelling{}, "", nil, false
}

// command reads what a spelling takes.
func (s spelling) command(value string, words []string) (c Command, left []string, ok bool) {
	c = Command{Verb: s.verb, Text: s.says}
	switch s.takes {
	case alone:
	case commit:
		if len(words) > 0 && isCommit(words[0]) {
			c.SHA, words = strings.ToLower(words[0]), words[1:]
		}
	case level:
		n, err := strconv.Atoi(value)
		if err != nil || n < -1000 || n > 1000 {
			return c, nil, false
		}
		c.Level = n
	case people:
		for name := range strings.SplitSeq(value, ",") {
			name = strings.TrimPrefix(name, "@")
			if !isLogin(name) || len(c.Users) == maxPeople {
				return c, nil, false
			}
			c.Users = append(c.Users, name)
		}
	case reason:
		text := strings.TrimSpace(value + " " + strings.Join(words, " "))
		if s.verb == Freeze { // homu's treeclosed=100: a number says how important a change must be
			if first, more, _ := strings.Cut(text, " "); strings.Trim(first, "0123456789") == "" {
				text = more
			}
		}
		c.Text, words = clip(text, maxReason), nil
	case given:
		args, fine := parseArgs(words)
		if !fine {
			return c, nil, false
		}
		c.Args, words = args, nil
	case rest:
		words = nil
	}
	return c, words, true
}

// parseArgs reads what a run may use; anything unknown spoils the line.
func parseArgs(words []string) (a Args, ok bool) {
	for _, w := range words {
		key, value, found := strings.Cut(strings.TrimPrefix(w, "--"), "=")
		if !found || value == "" {
			return a, false
		}
		switch strings.ToLower(key) {
		case "workers":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > 1000 {
				return a, false
			}
			a.Workers = n
		case "budget":
			if !a.budget(value) {
				return a, false
			}
		case "model":
			if len(value) > 100 || strings.Trim(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/") != "" {
				return a, false
			}
			a.Model = value
		default:
			return a, false
		}
	}
	return a, true
}

// budget reads $12.50, or tokens as 200k, 5M or a plain number.
func (a *Args) budget(value string) bool {
	if dollars, ok := strings.CutPrefix(value, "$"); ok {
		n, err := strconv.ParseFloat(dollars, 64)
		a.Dollars = n
		return err == nil && n > 0 && n <= 1e6
	}
	factor := int64(1)
	switch value[len(value)-1] {
	case 'k', 'K':
		factor, value = 1e3, value[:len(value)-1]
	case 'm', 'M':
		factor, value = 1e6, value[:len(value)-1]
	}
	n, err := strconv.ParseInt(value, 10, 64)
	a.Tokens = n * factor
	return err == nil && n > 0 && n <= 1e9
}

func isCommit(s string) bool {
	return len(s) >= 7 && len(s) <= 40 && strings.Trim(strings.ToLower(s), "0123456789abcdef") == ""
}

func isLogin(s string) bool {
	return s != "" && len(s) <= 39 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == "" && s[0] != '-'
}
