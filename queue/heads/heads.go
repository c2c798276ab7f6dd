// Package heads owns how what the commits at the heads of the queue say is written down,
// so that a command that lists ten thousand of them reads one file and not ten thousand
// commits. Nothing is decided by it, and losing it costs the time to read them again.
package heads

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"greenward/internal/git"
)

// Head is what a commit says of the change that it is the head of. A commit never
// changes, so neither does this.
type Head struct {
	Since    time.Time // to the second, UTC
	Priority int       // 0 to 9
	Lane     string    // one line
}

// Format is the text that Parse reads: a line a head, in no order. What has no place
// in one is left out.
func Format(list map[git.Hash]Head) []byte {
	var out bytes.Buffer
	for h, head := range list {
		if head.Lane == "" || strings.ContainsAny(head.Lane, "\n\r") || head.Priority < 0 || head.Priority > 9 {
			continue
		}
		fmt.Fprintf(&out, "%s %d %d %s\n", h, head.Since.Unix(), head.Priority, head.Lane)
	}
	return out.Bytes()
}

// Parse reads what Format wrote; a line that is torn or strange is passed over.
func Parse(data []byte) map[git.Hash]Head {
	list := map[git.Hash]Head{}
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
		list[h] = Head{time.Unix(seconds, 0).UTC(), int(words[2][0] - '0'), words[3]}
	}
	return list
}
