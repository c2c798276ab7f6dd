package merge

import (
	"slices"
	"strings"
	"unicode/utf8"

	"greenward/internal/git"
)

// ChangeKey is the trailer that names the entry a commit landed for.
const ChangeKey = "Change"

// coAuthor is the trailer that names further authors.
const coAuthor = "Co-authored-by"

// ReadMessage reads a message of any origin in such a way that String gives
// back a message whose trailers git reads as they are listed. Where git takes a
// last paragraph of mixed lines for trailers, the lines that are none go to the
// body; a line that would cut the message is indented; a message in another
// encoding than UTF-8 is taken for Latin-1.
func ReadMessage(raw string) git.Message {
	if !utf8.ValidString(raw) {
		runes := make([]rune, 0, len(raw))
		for _, b := range []byte(raw) {
			runes = append(runes, rune(b))
		}
		raw = string(runes)
	}
	m := git.ParseMessage(raw)
	if len(m.Trailers) == 0 {
		m = splitMixed(m)
	}
	if m.Subject == "" {
		m.Subject = "(no subject)"
	}
	m.Subject = uncut(m.Subject)
	m.Body = strings.Trim(indentDividers(m.Body), "\n")
	m.Trailers = slices.DeleteFunc(slices.Clone(m.Trailers), func(t git.Trailer) bool { return git.OneLine(t.Value) == "" })
	for i := range m.Trailers {
		m.Trailers[i].Value = git.OneLine(m.Trailers[i].Value)
	}
	if len(m.Trailers) == 0 {
		m.Trailers = nil
	}
	return m
}

// splitMixed takes the trailers out of a last paragraph that git reads as a
// block although it holds other lines: one that has a line git itself writes,
// and no more than three other lines for every trailer.
func splitMixed(m git.Message) git.Message {
	body := strings.TrimRight(m.Body, "\n")
	head, last := "", body
	if at := strings.LastIndex(body, "\n\n"); at >= 0 {
		head, last = body[:at], strings.TrimLeft(body[at:], "\n")
	}
	var block git.Trailers
	var prose []string
	generated := false
	for line := range strings.SplitSeq(last, "\n") {
		one := git.ParseMessage("x\n\n" + line).Trailers
		picked := strings.HasPrefix(line, "(cherry picked from commit ")
		generated = generated || picked || strings.HasPrefix(line, "Signed-off-by: ")
		if len(one) == 1 {
			block = append(block, one[0])
			continue
		}
		prose = append(prose, line)
	}
	if !generated || len(block) == 0 || len(block)*3 < len(prose) {
		return m
	}
	m.Body = strings.Trim(head+"\n\n"+strings.Join(prose, "\n"), "\n")
	m.Trailers = block
	return m
}

// indentDividers keeps git from taking a line of dashes for the end of the message.
func indentDividers(body string) string {
	lines := strings.Split(body, "\n")
	for i := range lines {
		lines[i] = uncut(lines[i])
	}
	return strings.Join(lines, "\n")
}

func uncut(line string) string {
	if strings.HasPrefix(line, "---") {
		return " " + line
	}
	return line
}

// landing is the message of a change's last commit on main: the commit's own,
// with the entry as its only Change trailer.
func landing(m git.Message, entry string) git.Message {
	m.Trailers = m.Trailers.Without(ChangeKey).With(ChangeKey, entry)
	return m
}

// appended is a message as it is, byte by byte, with the entry's trailer behind it: in
// its block where it ends with one, else in a block of its own. Whoever uses it proves
// that git reads it so. Empty: there is nothing to append, or nothing to append to.
func appended(message, entry string) string {
	text := strings.TrimRight(message, "\n")
	if entry == "" || !utf8.ValidString(text) || strings.TrimSpace(text) == "" {
		return ""
	}
	sep := "\n\n"
	if len(git.ParseMessage(text).Trailers) > 0 {
		sep = "\n"
	}
	return text + sep + ChangeKey + ": " + entry + "\n"
}

// squashed is one message for several commits: the first one's text, the other
// subjects as a list, and every trailer once in one block.
func squashed(commits []git.Commit, entry string) git.Message {
	m := ReadMessage(commits[0].Message)
	var rest []string
	var all git.Trailers
	author := strings.ToLower(commits[0].Author.Email)
	named := map[string]bool{author: true}
	var others git.Trailers
	credit := func(value, email string) {
		email = strings.ToLower(email)
		if !named[email] {
			named[email] = true
			others = append(others, git.Trailer{Key: coAuthor, Value: value})
		}
	}
	for i, c := range commits {
		one := ReadMessage(c.Message)
		if i > 0 && len(c.Parents) < 2 {
			rest = append(rest, "* "+one.Subject)
		}
		if len(c.Parents) < 2 {
			credit(git.OneLine(c.Author.Name)+" <"+git.OneLine(c.Author.Email)+">", c.Author.Email)
		}
		for _, t := range one.Trailers.Without(ChangeKey) {
			if strings.EqualFold(t.Key, coAuthor) {
				credit(t.Value, emailOf(t.Value))
				continue
			}
			if !slices.Contains(all, t) {
				all = append(all, t)
			}
		}
	}
	if len(rest) > 0 {
		m.Body = strings.Trim(m.Body+"\n\n"+strings.Join(rest, "\n"), "\n")
	}
	m.Trailers = append(all, others...)
	return landing(m, entry)
}

// emailOf is the address in a "Name <address>" value, else the whole value.
func emailOf(value string) string {
	_, rest, ok := strings.Cut(value, "<")
	address, _, closed := strings.Cut(rest, ">")
	if !ok || !closed {
		return strings.TrimSpace(value)
	}
	return strings.TrimSpace(address)
}
