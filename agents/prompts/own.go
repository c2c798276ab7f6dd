package prompts

import (
	"fmt"
	"strings"
	"unicode"
)

// Dir is where a repository keeps its own words: <role>.md takes the place of
// the text of that name.
const Dir = ".greenward/prompts/"

// Source gives a repository's own text of a name; false: it has none.
type Source func(name string) (text string, ok bool)

// maxOwn bounds a repository's own text, in bytes.
const maxOwn = 32 << 10

// RenderOwn is Render with the repository's own words where it has some. Words
// that cannot be filled in are left aside; fault says why.
func RenderOwn(own Source, name string, facts Facts) (p Prompt, fault string, err error) {
	if text, ok := own(name); ok {
		if len(text) > maxOwn {
			fault = fmt.Sprintf("%s%s.md has %d bytes; at most %d are taken", Dir, name, len(text), maxOwn)
		} else if p, err := fill(name, text, facts); err == nil && p.Text != "" {
			return p, "", nil
		} else {
			fault = fmt.Sprintf("%s%s.md cannot be used: %v", Dir, name, err)
		}
	}
	p, err = Render(name, facts)
	return p, fault, err
}

// Visible shows characters that people do not see but models read: those that
// turn the direction of writing, have no width, or spell hidden tags. Foreign text
// goes through it before it is told.
func Visible(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if strings.IndexFunc(text, hidden) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if hidden(r) {
			fmt.Fprintf(&b, "<U+%04X>", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	switch r {
	case '\n', '\t', '\r':
		return false
	case 0x200d, 0xfe0f: // joins and styles emoji
		return false
	}
	return unicode.Is(unicode.Cf, r) || unicode.IsControl(r) || r >= 0xe0000 && r <= 0xe0fff || r >= 0xfe00 && r < 0xfe0f
}
