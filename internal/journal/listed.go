package journal

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"greenward/internal/git"
)

// Listed is what a commit says of the change that it is the head of. A commit never
// changes, so neither does this. It is written down so that a command that lists ten
// thousand reads one file; nothing is decided by it, and losing it costs time.
type Listed struct {
	Since    time.Time // to the second, UTC
	Priority int       // 0 to 9
	Lane     string    // one line
}

// FormatListed is the text that ParseListed reads: a line a head, in no order. What has no place
// in one is left out.
func FormatListed(list map[git.Hash]Listed) []byte {
	var out bytes.Buffer
	for h, head := range list {
		if head.Lane == "" || strings.ContainsAny(head.Lane, "\n\r") || head.Priority < 0 || head.Priority > 9 {
			continue
		}
		fmt.Fprintf(&out, "%s %d %d %s\n", h, head.Since.Unix(), head.Priority, head.Lane)
	}
	return out.Bytes()
}

// ParseListed reads what FormatListed wrote; a line that is torn or strange is passed over.
func ParseListed(data []byte) map[git.Hash]Listed {
	list := map[git.Hash]Listed{}
	for line := range strings.Lines(string(data)) {
		line, whole := strings.CutSuffix(line, "\n")
		words := strings.SplitN(line, " ", 4)
		if !whole || len(words) < 4 || words[3] == "" || len(words[2]) != 1 || words[2][0] < '0' || words[2][0] > '9' {
			continue
		}
		h, err := git.ParseHash(words[0])
		seconds, secondsErr := strconv.ParseInt(words[1], 10, 64)
		if err != nil || secondsErr != nil {
			continue
		}
		list[h] = Listed{time.Unix(seconds, 0).UTC(), int(words[2][0] - '0'), words[3]}
	}
	return list
}
