package main

import (
	"runtime/debug"
	"strings"
)

// version is what this program was built from. What is not known is null.
type version struct {
	Version  string  `json:"version"`  // of the module: a tag, or devel
	Revision *string `json:"revision"` // the commit of its source
	Modified bool    `json:"modified"` // the source differed from it
	Go       string  `json:"go"`       // the compiler
}

// built reads what the compiler put into the program.
func built() version {
	v := version{Version: "devel", Go: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Go = info.GoVersion
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = &s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v version) String() string {
	words := []string{v.Version}
	if v.Revision != nil && !strings.Contains(v.Version, (*v.Revision)[:12]) {
		words = append(words, (*v.Revision)[:12])
	}
	if v.Modified && !strings.Contains(v.Version, "dirty") {
		words = append(words, "modified")
	}
	return strings.Join(append(words, v.Go), ", ")
}
