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

// attributeLine is one line of a .gitattributes that speaks of conflict-marker-size
// or of a filter.
type attributeLine struct {
	pattern string // matched against the path from the top
	size    int    // of conflict markers; 0: not said
	filter  string // "-": none; "": not said
}

// attributesOf is what the repository says of a file: how long conflict markers
// are in it, what is shorter being part of the text, and which filter git is to
// send it through, "" for none.
func (l *landing) attributesOf(name string) (markerSize int, filter string, err error) {
	size, folder := plainMarker, ""
	for {
		lines, err := l.attributes(folder)
		if err != nil {
			return 0, "", err
		}
		for _, line := range lines {
			if !config.Match(line.pattern, name) {
				continue
			}
			if line.size > 0 {
				size = line.size
			}
			if line.filter != "" {
				filter = strings.TrimPrefix(line.filter, "-")
			}
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(name, folder), "/")
		next, _, deeper := strings.Cut(rest, "/")
		if !deeper {
			return size, filter, nil
		}
		folder = path.Join(folder, next)
	}
}

// attributes reads the .gitattributes of a folder.
func (l *landing) attributes(folder string) ([]attributeLine, error) {
	if lines, known := l.attrs[folder]; known {
		return lines, nil
	}
	data, err := l.Repo.File(l.to, path.Join(folder, ".gitattributes"))
	if err != nil && !errors.Is(err, git.ErrNotFound) {
		return nil, fmt.Errorf("read .gitattributes: %w", err)
	}
	lines := []attributeLine{}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		pattern, anchored := strings.CutPrefix(fields[0], "/")
		if !anchored && !strings.Contains(pattern, "/") {
			pattern = "**/" + pattern
		}
		said := attributeLine{pattern: path.Join(folder, pattern)}
		for _, attribute := range fields[1:] {
			key, value, _ := strings.Cut(attribute, "=")
			switch key {
			case "conflict-marker-size":
				if size, err := strconv.Atoi(value); err == nil && size > 0 {
					said.size = size
				}
			case "filter":
				said.filter = value
			case "-filter", "!filter":
				said.filter = "-"
			}
		}
		if said.size > 0 || said.filter != "" {
			lines = append(lines, said)
		}
	}
	if l.attrs == nil {
		l.attrs = map[string][]attributeLine{}
	}
	l.attrs[folder] = lines
	return lines, nil
}
