package bot

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText bounds what is written to GitHub (its limit is 65,535 bytes) and read as a goal.
const maxText = 60_000

// Clean is text as a reader of the page sees it: without HTML comments, control
// and format characters (zero width, direction, tags), and with plain line ends.
func Clean(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\r\n", "\n"), "\uFFFD")
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "<!--")
		out.WriteString(before)
		if !found {
			break
		}
		_, after, closed := strings.Cut(rest, "-->")
		if !closed {
			break // GitHub shows nothing after it
		}
		text = after
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Variation_Selector, unicode.Zl, unicode.Zp), r == '\u115F', r == '\u1160', r == '\u3164', r == '\uFFA0':
			return -1
		}
		return r
	}, out.String()))
}

// Goal is an issue's text as a goal: data, bounded.
func Goal(title, body string) string {
	return cut(strings.TrimSpace(strings.Join(strings.Fields(Clean(title)), " ")+"\n\n"+Clean(body)), maxText)
}

// cut shortens to at most n bytes, at a character, and says so.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "\n… cut"
}

// line is text for a title: on one line, of at most n bytes.
func line(s string, n int) string {
	s = strings.Join(strings.Fields(Clean(s)), " ")
	if len(s) > n {
		s, _, _ = strings.Cut(cut(s, n), "\n")
		s += " …"
	}
	return s
}

// fenced shows foreign text as it is: nobody is mentioned, nothing is rendered.
func fenced(s string) string {
	s = cut(Clean(s), 8_000)
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "text\n" + s + "\n" + fence
}

// code shows one foreign word.
func code(s string) string {
	return "`" + cut(strings.Map(func(r rune) rune {
		if r == '`' || r == '\n' {
			return '\''
		}
		return r
	}, Clean(s)), 200) + "`"
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}
