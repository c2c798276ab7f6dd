package git

import (
	"bytes"
	"slices"
)

// MergeLines is the lines of several contents as cat_sort_uniq leaves them: sorted, each
// once, none empty.
func MergeLines(contents ...[]byte) []byte {
	var lines [][]byte
	for _, content := range contents {
		for text := range bytes.Lines(content) {
			if text = bytes.TrimSuffix(text, []byte("\n")); len(text) > 0 {
				lines = append(lines, text)
			}
		}
	}
	slices.SortFunc(lines, bytes.Compare)
	lines = slices.CompactFunc(lines, bytes.Equal)
	return append(bytes.Join(lines, []byte("\n")), '\n')
}
