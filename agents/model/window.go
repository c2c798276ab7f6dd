package model

import "fmt"

const (
	// minSuspect is the least of a prompt, in tokens, that is checked: windows that
	// servers cut to in silence begin at 2,048.
	minSuspect = 2000
	// mostBytesPerToken is more than any tokenizer makes of text that is no run of
	// one byte: prose is near 4.5, code near 3.
	mostBytesPerToken = 10
)

// leastTokens is fewer tokens than the request can have.
func leastTokens(r Request) int64 {
	var n int64
	for _, m := range r.Messages {
		n += distinct(m.Text)
		for _, c := range m.Calls {
			n += distinct(c.Arguments)
		}
	}
	return n / mostBytesPerToken
}

// distinct counts the bytes of text less those that repeat the one before, for
// tokenizers fold long runs of one character into few tokens.
func distinct(text string) int64 {
	var n int64
	for i := range len(text) {
		if i == 0 || text[i] != text[i-1] {
			n++
		}
	}
	return n
}

// unread tells whether a server reports far fewer tokens than it was sent.
// Nothing can be said where it reports none.
func (n *completion) unread(u Usage) bool {
	read := max(u.Prompt, u.Cached)
	return !u.Estimated && read > 0 && n.floor >= minSuspect && read < n.floor
}

func (n *completion) window(r Reply) *Error {
	return &Error{
		Class: Window, URL: n.chat.url, Tries: n.tries, Spent: n.spent.Add(r.Usage),
		Message: fmt.Sprintf("it reports %d tokens for a conversation that has more than %d", r.Usage.Prompt, n.floor),
	}
}
