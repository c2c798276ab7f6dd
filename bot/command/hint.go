package command

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxChat is how many words a line may have that is taken for a mistyped command;
// a longer one is prose.
const maxChat = 4

// hint says what a line of this dialect with an unknown word may mean; meant is
// false where it is more likely prose.
func (d dialect) hint(words []string, start string, known bool) (c Command, meant bool) {
	if start == "" || len(words) > maxChat {
		return Command{}, false
	}
	best := nearest(words[0], d.words)
	switch {
	case best != "":
		return Command{Verb: Hint, Text: "Did you mean " + quoted(best) + "? Nothing was done."}, true
	case d.strict || known || strings.HasPrefix(start, "@"):
		return Command{Verb: Hint, Text: "This is not understood, so nothing was done: " + typed(append([]string{start}, words...))}, true
	}
	return Command{}, false
}

// guess finds the command in a line whose very first word is mistyped: "bros r+",
// "/mergee", "/merge please".
func guess(words []string, known []dialect) []Command {
	first := strings.ToLower(words[0])
	for _, d := range known {
		for _, start := range d.starts {
			switch {
			case start == "" && d.strict && len(words) <= 2 && strings.HasPrefix(first, "/"):
				if best := nearest(first, d.words); best != "" {
					return []Command{{Verb: Hint, Text: "Did you mean " + quoted(best) + ", alone or with a commit? Nothing was done."}}
				}
			case start != "" && len(words) == 2 && len(start) > 3 && first != start && distance(first, start) <= 2:
				if _, _, _, ok := d.match(words[1:]); ok {
					return []Command{{Verb: Hint, Text: "Did you mean " + typed([]string{start, words[1]}) + "? Nothing was done."}}
				}
			}
		}
	}
	return nil
}

// nearest is the spelling that differs least from a word, or "" where none is near.
func nearest(word string, from []spelling) string {
	word = strings.ToLower(clip(word, 40))
	best, least := "", 2
	if len(word) > 6 {
		least = 3
	}
	for _, s := range from {
		if strings.Contains(s.word, " ") {
			continue
		}
		n := distance(word, s.word)
		if flipped(word) == s.word {
			n = 0
		}
		if n < least {
			best, least = s.word, n
		}
	}
	return best
}

// flipped turns +r into r+.
func flipped(word string) string {
	if len(word) == 2 && (word[0] == '+' || word[0] == '-') {
		return word[1:] + word[:1]
	}
	return word
}

// distance is how many letters two words differ by, a swap of neighbours counted
// once (optimal string alignment: Boytsov, "Indexing methods for approximate
// dictionary searching", 2011).
func distance(a, b string) int {
	if len(a) > 60 || len(b) > 60 {
		return 60
	}
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// typed is what was typed, to be shown: nothing in it can be a command, a mention
// or markup.
func typed(words []string) string {
	return quoted(clip(strings.TrimSpace(strings.Join(words, " ")), maxTyped))
}

func quoted(s string) string {
	return "`" + strings.Map(func(r rune) rune {
		if r == '`' || r == '\n' || r == '\r' {
			return '\''
		}
		return r
	}, s) + "`"
}

// clip is printable text of at most n bytes, cut at a character.
func clip(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
