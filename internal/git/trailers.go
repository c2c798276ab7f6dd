package git

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Trailer is one line of the block that ends a commit message.
type Trailer struct{ Key, Value string }

// Trailers is that block; order and repeats are kept.
type Trailers []Trailer

// Get is the first value of key, compared without case.
func (t Trailers) Get(key string) (string, bool) {
	for _, one := range t {
		if strings.EqualFold(one.Key, key) {
			return one.Value, true
		}
	}
	return "", false
}

// All is every value of key, in order.
func (t Trailers) All(key string) []string {
	var values []string
	for _, one := range t {
		if strings.EqualFold(one.Key, key) {
			values = append(values, one.Value)
		}
	}
	return values
}

// With is a copy that ends with one trailer more.
func (t Trailers) With(key, value string) Trailers {
	return append(slices.Clip(t), Trailer{key, value})
}

// Without is a copy that lacks every trailer with that key.
func (t Trailers) Without(key string) Trailers {
	var kept Trailers
	for _, one := range t {
		if !strings.EqualFold(one.Key, key) {
			kept = append(kept, one)
		}
	}
	return kept
}

// Message is a commit message in its three parts.
type Message struct {
	Subject  string
	Body     string // paragraphs between subject and trailers, without surrounding blank lines
	Trailers Trailers
}

// ParseMessage splits a message. The trailers are the last paragraph when every
// line of it is a trailer or continues one; the subject's paragraph has none. It
// is stricter than git, which takes a paragraph that is one quarter trailers:
// what String writes is read alike by both, and Repo.ProveTrailers shows it.
func ParseMessage(raw string) Message {
	lines := strings.Split(strings.ReplaceAll(raw, "\r\n", "\n"), "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) == "" {
			lines[i] = "" // git takes a line of blanks for an empty one
		}
	}
	subject, rest, _ := strings.Cut(strings.Trim(strings.Join(lines, "\n"), "\n"), "\n")
	m := Message{Subject: strings.TrimSpace(subject), Body: strings.Trim(rest, "\n")}
	at := strings.LastIndex(rest, "\n\n")
	last := strings.TrimPrefix(rest[max(at, 0):], "\n\n")
	if at < 0 {
		var apart bool
		if last, apart = strings.CutPrefix(rest, "\n"); !apart {
			return m
		}
	}
	if block, ok := parseBlock(last); ok {
		m.Trailers = block
		m.Body = strings.Trim(strings.TrimSuffix(rest, last), "\n")
	}
	return m
}

func parseBlock(paragraph string) (Trailers, bool) {
	var block Trailers
	if paragraph == "" {
		return nil, false
	}
	for line := range strings.SplitSeq(paragraph, "\n") {
		if line != "" && (line[0] == ' ' || line[0] == '\t') && len(block) > 0 {
			block[len(block)-1].Value += " " + strings.TrimSpace(line)
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		key = strings.TrimRight(key, " \t")
		if !ok || !isKey(key) || strings.HasPrefix(value, "//") { // an address is prose, though git takes it for a trailer
			return nil, false
		}
		block = append(block, Trailer{key, strings.TrimSpace(value)})
	}
	return block, true
}

func isKey(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return s != ""
}

// String is the message as it is committed: it always ends with one newline.
func (m Message) String() string {
	var b strings.Builder
	b.WriteString(m.Subject)
	b.WriteString("\n")
	if m.Body != "" {
		b.WriteString("\n" + m.Body + "\n")
	}
	if len(m.Trailers) > 0 {
		b.WriteString("\n" + m.Trailers.block())
	}
	return b.String()
}

// block is the trailers as they end a message.
func (t Trailers) block() string {
	var b strings.Builder
	for _, one := range t {
		b.WriteString(one.Key + ": " + one.Value + "\n")
	}
	return b.String()
}

// plainTrailers reports whether git is sure to read exactly these trailers, at
// least one, in a message: they are its last paragraph, not its first, each on a
// line of its own; no line could be a comment or the divider before a patch; and
// there is no control character.
func plainTrailers(message string, want Trailers) bool {
	head, ok := strings.CutSuffix(message, "\n\n"+want.block())
	if !ok || len(want) == 0 || head == "" {
		return false
	}
	for _, t := range want {
		if !isKey(t.Key) || t.Value == "" || strings.TrimSpace(t.Value) != t.Value || strings.Contains(t.Value, "\n") {
			return false
		}
	}
	first := true
	for line := range strings.SplitSeq(message, "\n") {
		if strings.HasPrefix(line, "---") || strings.HasPrefix(line, "#") || first && strings.TrimSpace(line) == "" {
			return false
		}
		for i := range len(line) {
			if line[i] < 0x20 || line[i] == 0x7f {
				return false
			}
		}
		first = false
	}
	return true
}

// Guard is a copy whose body cannot hide the trailers from git: a line that git
// takes for the divider before a patch is indented by one blank.
func (m Message) Guard() Message {
	lines := strings.Split(m.Body, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "---") {
			lines[i] = " " + line
		}
	}
	m.Body = strings.Join(lines, "\n")
	return m
}

// Check refuses a message that would not read back as it is: no subject, a key
// or value that is no trailer, a body that could be taken for the block.
func (m Message) Check() error {
	if m.Subject == "" || strings.ContainsAny(m.Subject, "\n\x00") || strings.TrimSpace(m.Subject) != m.Subject {
		return fmt.Errorf("subject %q: one line is wanted, not empty", m.Subject)
	}
	for _, t := range m.Trailers {
		if !isKey(t.Key) {
			return fmt.Errorf("trailer key %q: letters, digits and - are wanted", t.Key)
		}
		if t.Value == "" || OneLine(t.Value) != t.Value {
			return fmt.Errorf("trailer %s: value %q is not one line of text", t.Key, t.Value)
		}
	}
	if strings.ContainsRune(m.Body, 0) {
		return fmt.Errorf("body of %q: a NUL byte cannot be in a message", m.Subject)
	}
	back := ParseMessage(m.String())
	if back.Subject != m.Subject || back.Body != m.Body || len(back.Trailers) != len(m.Trailers) {
		return fmt.Errorf("message %q does not read back as written", m.Subject)
	}
	return nil
}

// OneLine collapses white space, drops control characters and invalid UTF-8,
// so that foreign text can be the value of a trailer.
func OneLine(s string) string {
	s = strings.ToValidUTF8(s, "")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || r == '\v' || r == '\f' || r == 0x85 || r == 0x2028 || r == 0x2029:
			return ' '
		case r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0xfeff:
			return -1
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// Quote indents foreign text so that no line of it can be read as a trailer, a
// divider or a comment; trailing blanks and control characters go.
func Quote(s string) string {
	var lines []string
	for line := range strings.SplitSeq(strings.ToValidUTF8(s, ""), "\n") {
		line = strings.TrimRightFunc(strings.Map(func(r rune) rune {
			if r < 0x20 && r != '\t' || r == 0x7f {
				return -1
			}
			return r
		}, line), unicode.IsSpace)
		if line != "" {
			line = "  " + line
		}
		lines = append(lines, line)
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}
