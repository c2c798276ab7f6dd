package config

import (
	"path"
	"strings"
)

// Match reports whether a glob of the policy takes in a path of the tree. Both
// begin at the top and are cut at slashes; * ? and [] stay within a segment, **
// stands for any number of them. A malformed pattern takes in nothing.
func Match(pattern, name string) bool {
	return matchSegments(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

// matchSegments walks both lists once, going back to the last ** only, so that
// no pattern takes more than the product of the two lengths.
func matchSegments(pattern, name []string) bool {
	p, n := 0, 0
	star, resume := -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			star, resume = p, n
			p++
			continue
		case p < len(pattern):
			if ok, err := path.Match(pattern[p], name[n]); err == nil && ok {
				p++
				n++
				continue
			}
		}
		if star < 0 {
			return false
		}
		resume++
		p, n = star+1, resume
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}
