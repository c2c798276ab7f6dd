package command

import "strings"

// scanner walks the lines of a comment and knows which of them the author speaks.
type scanner struct {
	fence   string // the fence that is open
	element string // the end of an HTML element or comment that is open
	quote   bool   // the paragraph belongs to a quotation
	ticks   int    // length of the code span that is open in this paragraph
	end     bool   // all that follows is quoted
}

func (s *scanner) spoken(line string) bool {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	lower := strings.ToLower(text)
	switch {
	case s.fence != "":
		if indent < 4 && strings.HasPrefix(text, s.fence) && strings.Trim(text, s.fence[:1]+" \t") == "" {
			s.fence = ""
		}
		return false
	case s.element != "":
		s.html(lower)
		return false
	case strings.TrimSpace(text) == "":
		s.quote, s.ticks = false, 0
		return false
	case indent >= 4 || text[0] == '\t':
		return false
	case s.opensFence(text):
		return false
	case text[0] == '>' || s.quote:
		s.quote = true
		return false
	case strings.HasPrefix(lower, "on ") && strings.HasSuffix(strings.TrimSpace(lower), "wrote:"),
		strings.HasPrefix(lower, "--") && strings.Contains(lower, "original message"):
		s.end = true
		return false
	}
	inCode := s.ticks > 0
	s.span(text)
	s.html(outside(lower))
	return !inCode
}

// outside is a line without the code spans that begin and end in it: what looks like a
// tag there is none.
func outside(line string) string {
	var out strings.Builder
	for {
		i := strings.IndexByte(line, '`')
		if i < 0 {
			break
		}
		rest := strings.TrimLeft(line[i:], "`")
		n := len(line) - i - len(rest)
		end := 0
		for end < len(rest) && ticks(rest[end:]) != n {
			end += max(ticks(rest[end:]), 1)
		}
		if end >= len(rest) {
			out.WriteString(line[:i+n]) // it is open: the text goes on
			line = rest
			continue
		}
		out.WriteString(line[:i])
		line = rest[end+n:]
	}
	out.WriteString(line)
	return out.String()
}

// ticks is how many back quotes a text begins with.
func ticks(s string) int { return len(s) - len(strings.TrimLeft(s, "`")) }

func (s *scanner) opensFence(text string) bool {
	for _, mark := range []string{"`", "~"} {
		run := text[:len(text)-len(strings.TrimLeft(text, mark))]
		if len(run) >= 3 && (mark == "~" || !strings.Contains(text[len(run):], "`")) {
			s.fence = run
			return true
		}
	}
	return false
}

// span follows code spans that go on over the end of a line.
func (s *scanner) span(text string) {
	for i := 0; i < len(text); {
		n := 0
		for i+n < len(text) && text[i+n] == '`' {
			n++
		}
		switch {
		case n == 0:
			i++
			continue
		case s.ticks == 0:
			s.ticks = n
		case s.ticks == n:
			s.ticks = 0
		}
		i += n
	}
}

// html follows elements whose contents are not speech, and comments.
func (s *scanner) html(lower string) {
	for {
		if s.element != "" {
			_, rest, closed := strings.Cut(lower, s.element)
			if !closed {
				return
			}
			s.element, lower = "", rest
		}
		first := -1
		for _, tag := range [][2]string{
			{"<!--", "-->"},
			{"<pre", "</pre"},
			{"<code", "</code"},
			{"<blockquote", "</blockquote"},
			{"<script", "</script"},
			{"<style", "</style"},
			{"<textarea", "</textarea"},
		} {
			if i := strings.Index(lower, tag[0]); i >= 0 && (first < 0 || i < first) {
				first, s.element = i, tag[1]
			}
		}
		if first < 0 {
			return
		}
		lower = lower[first+1:]
	}
}
