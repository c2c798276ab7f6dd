package wire

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Ask is a request to git-upload-pack, version 2: Prefixes of the refs to list, or
// Want, commits to send.
type Ask struct {
	Prefixes []string
	Want     []string
	done     bool // nothing more is said before a fetch is answered
}

// MaxAsk is the most that is read of a request.
const MaxAsk = 256 << 10

// List asks for the refs whose names begin in one of these ways.
func List(prefixes ...string) []byte {
	var out bytes.Buffer
	begin(&out, "ls-refs")
	for _, p := range prefixes {
		packet(&out, "ref-prefix "+p+"\n")
	}
	out.WriteString(flush)
	return out.Bytes()
}

// Fetch asks for commits, and for nothing of which who asks has anything.
func Fetch(want []string) []byte {
	var out bytes.Buffer
	begin(&out, "fetch")
	packet(&out, "no-progress\n")
	for _, h := range want {
		packet(&out, "want "+h+"\n")
	}
	packet(&out, "done\n")
	out.WriteString(flush)
	return out.Bytes()
}

func begin(out *bytes.Buffer, command string) {
	packet(out, "command="+command+"\n")
	packet(out, "agent=greenward\n")
	packet(out, "object-format=sha1\n")
	out.WriteString(delim)
}

// ReadAsk reads what List or Fetch asks; all else is ErrForeign.
func ReadAsk(body []byte) (Ask, error) {
	var a Ask
	r := &reader{in: bytes.NewReader(body)}
	head, err := r.section(MaxAsk)
	if err != nil || len(head) == 0 || r.mark != delim {
		return a, ErrForeign
	}
	lines, err := r.section(MaxAsk)
	if err != nil || r.mark != flush {
		return a, ErrForeign
	}
	if slices.ContainsFunc(head[1:], func(s string) bool {
		return !strings.HasPrefix(s, "agent=") && strings.TrimSpace(s) != "object-format=sha1"
	}) {
		return a, ErrForeign
	}
	for _, line := range lines {
		if !a.add(strings.TrimSpace(head[0]), strings.TrimSuffix(line, "\n")) {
			return a, ErrForeign
		}
	}
	if len(a.Want) > MaxCommits || len(a.Want) > 0 != a.done || len(a.Want) == 0 && len(a.Prefixes) == 0 {
		return a, ErrForeign
	}
	return a, nil
}

// add takes one line of a command; false: it is foreign.
func (a *Ask) add(command, line string) bool {
	key, value, _ := strings.Cut(line, " ")
	switch {
	case command == "command=ls-refs" && key == "ref-prefix":
		a.Prefixes = append(a.Prefixes, value)
	case command == "command=fetch" && key == "want":
		a.Want = append(a.Want, value)
	case command == "command=fetch" && line == "done":
		a.done = true
	default:
		return command == "command=fetch" && line == "no-progress"
	}
	return true
}

// Ref is one line of a list.
type Ref struct{ Name, Hash string }

// Listing is the answer to List.
func Listing(refs []Ref) []byte {
	var out bytes.Buffer
	for _, r := range refs {
		packet(&out, r.Hash+" "+r.Name+"\n")
	}
	out.WriteString(flush)
	return out.Bytes()
}

// ReadListing reads the answer to List.
func ReadListing(in io.Reader) ([]Ref, error) {
	r := &reader{in: in}
	lines, err := r.section(64 << 20)
	if err != nil {
		return nil, err
	}
	if r.mark != flush {
		return nil, fmt.Errorf("a list that goes on: %w", ErrForeign)
	}
	refs := make([]Ref, 0, len(lines))
	for _, line := range lines {
		hash, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		name, _, _ = strings.Cut(name, " ")
		if !ok || len(hash) != len(Zero) || strings.Trim(hash, "0123456789abcdef") != "" || !strings.HasPrefix(name, "refs/") {
			return nil, fmt.Errorf("%.200q is no ref: %w", line, ErrForeign)
		}
		refs = append(refs, Ref{name, hash})
	}
	return refs, nil
}

// Fetched is the answer to Fetch.
func Fetched(commits [][]byte) ([]byte, error) {
	pack, err := Commits(commits)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	packet(&out, "packfile\n")
	band(&out, pack)
	out.WriteString(flush)
	return out.Bytes(), nil
}

// ReadFetched reads the answer to Fetch: the commits, by their names.
func ReadFetched(in io.Reader) (map[string][]byte, error) {
	r := &reader{in: in}
	if head, ok, err := r.read(); err != nil || !ok || head != "packfile\n" {
		return nil, fmt.Errorf("%.200q before a pack: %w", head, ErrForeign)
	}
	lines, err := r.section(MaxPack)
	if err != nil {
		return nil, err
	}
	var pack []byte
	for _, line := range lines {
		if strings.HasPrefix(line, "\x01") {
			pack = append(pack, line[1:]...)
		}
	}
	return Unpack(pack)
}
