package git

// PlainTrailers and Block are for tests that ask git the same.
func PlainTrailers(message string, want Trailers) bool { return plainTrailers(message, want) }

// Block is how trailers end a message.
func (t Trailers) Block() string { return t.block() }
