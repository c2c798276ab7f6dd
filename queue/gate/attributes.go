package gate

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"greenward/internal/config"
	"greenward/internal/git"
)

// plainMarker is the size of a conflict marker where nothing else is said.
const plainMarker = 7

// markSize is one line of a .gitattributes that speaks of conflict-marker-size.
type markSize struct {
	pattern string // matched against the path from the top
	size    int
}

// markerSize is how long conflict markers are in a file: what is shorter there
// is part of the text.
func (l *landing) markerSize(name string) (int, error) {
	size, folder := plainMarker, ""
	for {
		sizes, err := l.attributes(folder)
		if err != nil {
			return 0, err
		}
		for _, s := range sizes {
			if config.Match(s.pattern, name) {
				size = s.size
			}
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(name, folder), "/")
		next, _, deeper := strings.Cut(rest, "/")
		if !deeper {
			return size, nil
		}
		folder = path.Join(folder, next)
	}
}

// attributes reads what the .gitattributes of a folder say of marker sizes.
func (l *landing) attributes(folder string) ([]markSize, error) {
	if sizes, known := l.marks[folder]; known {
		return sizes, nil
	}
	data, err := l.Repo.File(l.to, path.Join(folder, ".gitattributes"))
	if err != nil && !errors.Is(err, git.ErrNotFound) {
		return nil, fmt.Errorf("read .gitattributes: %w", err)
	}
	sizes := []markSize{}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		pattern, anchored := strings.CutPrefix(fields[0], "/")
		if !anchored && !strings.Contains(pattern, "/") {
			pattern = "**/" + pattern
		}
		for _, attribute := range fields[1:] {
			value, named := strings.CutPrefix(attribute, "conflict-marker-size=")
			if size, err := strconv.Atoi(value); named && err == nil && size > 0 {
				sizes = append(sizes, markSize{path.Join(folder, pattern), size})
			}
		}
	}
	if l.marks == nil {
		l.marks = map[string][]markSize{}
	}
	l.marks[folder] = sizes
	return sizes, nil
}
