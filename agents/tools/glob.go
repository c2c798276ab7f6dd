package tools

import (
	"path"
	"regexp"
	"strings"
)

// compileGlob makes a test for paths. A pattern without a slash is about the
// last part of the path, one with a slash about all of it. * and ? stay within
// one part, ** goes through any number of them, {a,b} is either, [a-z] one of.
func compileGlob(glob string) (func(file string) bool, error) {
	if glob == "" {
		return func(string) bool { return true }, nil
	}
	clean := strings.TrimPrefix(strings.TrimPrefix(glob, "./"), "/")
	if strings.HasSuffix(clean, "/") {
		clean += "**"
	}
	match, err := regexp.Compile(`\A(?s:` + globExpression(clean) + `)\z`)
	if err != nil {
		return nil, faultf(`"glob" can't be used: %q`, glob)
	}
	if strings.Contains(glob, "/") {
		return match.MatchString, nil
	}
	return func(file string) bool { return match.MatchString(path.Base(file)) }, nil
}

func globExpression(glob string) string {
	var b strings.Builder
	depth := 0
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; {
		case strings.HasPrefix(glob[i:], "**/"):
			b.WriteString(`(?:.*/)?`)
			i += 2
		case strings.HasPrefix(glob[i:], "**"):
			b.WriteString(`.*`)
			i++
		case c == '*':
			b.WriteString(`[^/]*`)
		case c == '?':
			b.WriteString(`[^/]`)
		case c == '{':
			depth++
			b.WriteString(`(?:`)
		case c == '}' && depth > 0:
			depth--
			b.WriteString(`)`)
		case c == ',' && depth > 0:
			b.WriteString(`|`)
		case c == '[':
			end := strings.IndexByte(glob[i+1:], ']')
			if end < 1 {
				b.WriteString(`\[`)
				continue
			}
			set := glob[i+1 : i+1+end]
			if set[0] == '!' {
				set = "^" + set[1:]
			}
			b.WriteString("[" + strings.ReplaceAll(set, `\`, `\\`) + "]")
			i += end + 1
		case c < 0x80:
			b.WriteString(regexp.QuoteMeta(string(c)))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
