package git

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Identity is who wrote or committed something, and when, to the second.
type Identity struct {
	Name, Email string
	When        time.Time
}

// String is the identity as git stores it.
func (i Identity) String() string {
	name := cleanIdentity(i.Name)
	if name == "" {
		name = "nobody"
	}
	if i.When.Unix() < 0 {
		i.When = time.Unix(0, 0).UTC() // git stores no date before 1970, the zero Time for one
	}
	return fmt.Sprintf("%s <%s> %d %s", name, cleanIdentity(i.Email), i.When.Unix(), i.When.Format("-0700"))
}

func cleanIdentity(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '<' || r == '>' || r < 0x20 {
			return -1
		}
		return r
	}, s)
	return strings.Trim(s, " .,:;\"'\\")
}

func parseIdentity(s string) Identity {
	name, rest, _ := strings.Cut(s, "<")
	email, when, _ := strings.Cut(rest, ">")
	id := Identity{Name: strings.TrimSpace(name), Email: email}
	seconds, zone, _ := strings.Cut(strings.TrimSpace(when), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return id // git itself reads such a date as the epoch
	}
	if zone == "+0000" {
		id.When = time.Unix(unix, 0).UTC()
		return id
	}
	offset, err := time.Parse("-0700", zone)
	if err != nil {
		id.When = time.Unix(unix, 0).UTC()
		return id
	}
	id.When = time.Unix(unix, 0).In(offset.Location())
	return id
}

// Commit is what git stores of a commit; nothing in it is derived.
type Commit struct {
	Hash, Tree        Hash
	Parents           []Hash
	Author, Committer Identity
	Message           string
	Signature         string // armored; empty when unsigned
	encoding          string // as the commit states it; empty: UTF-8
	raw               []byte
}

// Subject is the first line of the message.
func (c Commit) Subject() string {
	subject, _, _ := strings.Cut(strings.TrimLeft(c.Message, "\n"), "\n")
	return strings.TrimSpace(subject)
}

// Trailers are the trailers of the message.
func (c Commit) Trailers() Trailers { return ParseMessage(c.Message).Trailers }

// Parent is the first parent, or the zero Hash of a root.
func (c Commit) Parent() Hash {
	if len(c.Parents) == 0 {
		return ""
	}
	return c.Parents[0]
}

// SignedPayload is the text that the commit's signature covers: the stored
// commit without its gpgsig header.
func (c Commit) SignedPayload() []byte {
	head, message, _ := bytes.Cut(c.raw, []byte("\n\n"))
	var b bytes.Buffer
	skipping := false
	for line := range bytes.SplitSeq(head, []byte("\n")) {
		if skipping && bytes.HasPrefix(line, []byte(" ")) {
			continue
		}
		skipping = bytes.HasPrefix(line, []byte("gpgsig "))
		if !skipping {
			b.Write(line)
			b.WriteByte('\n')
		}
	}
	b.WriteByte('\n')
	b.Write(message)
	return b.Bytes()
}

func parseCommit(h Hash, raw []byte) (Commit, error) {
	c := Commit{Hash: h, raw: raw}
	head, message, _ := bytes.Cut(raw, []byte("\n\n"))
	c.Message = string(message)
	key := ""
	for line := range strings.SplitSeq(string(head), "\n") {
		if more, ok := strings.CutPrefix(line, " "); ok {
			if key == "gpgsig" {
				c.Signature += "\n" + more
			}
			continue
		}
		var value string
		key, value, _ = strings.Cut(line, " ")
		switch key {
		case "tree":
			c.Tree = Hash(value)
		case "parent":
			c.Parents = append(c.Parents, Hash(value))
		case "author":
			c.Author = parseIdentity(value)
		case "committer":
			c.Committer = parseIdentity(value)
		case "gpgsig":
			c.Signature = value
		case "encoding":
			c.encoding = value
		}
	}
	if _, err := ParseHash(string(c.Tree)); err != nil {
		return Commit{}, fmt.Errorf("read commit %s: its tree: %w", h.Short(), err)
	}
	return c, nil
}

// Modes of tree entries.
const (
	ModeFile       = "100644"
	ModeExecutable = "100755"
	ModeSymlink    = "120000"
	ModeTree       = "040000"
	ModeSubmodule  = "160000"
)

// Entry is one name in a tree.
type Entry struct {
	Mode, Name string
	Hash       Hash
}

// parseTree reads a stored tree. Names and ids of all entries lie in two strings:
// a landing parses several trees of some hundred entries.
func parseTree(raw []byte) ([]Entry, error) {
	entries := make([]Entry, 0, len(raw)/32)
	ids := make([]byte, 0, 2*len(raw)/3)
	text := string(raw)
	for at := 0; at < len(text); {
		end := strings.IndexByte(text[at:], 0)
		mode, name, named := strings.Cut(text[at:at+max(end, 0)], " ")
		if end < 0 || !named || len(text)-at-end < 21 {
			return nil, fmt.Errorf("tree entry %q is cut short", text[at:])
		}
		at += end + 1
		ids = hex.AppendEncode(ids, raw[at:at+20])
		at += 20
		entries = append(entries, Entry{Mode: modeOf(mode), Name: name})
	}
	all := Hash(ids)
	for i := range entries {
		entries[i].Hash = all[40*i : 40*i+40]
	}
	return entries, nil
}

// modeOf is a mode with its leading zero, as one of the constants where it is one.
func modeOf(stored string) string {
	switch stored {
	case "40000":
		return ModeTree
	case ModeFile:
		return ModeFile
	case ModeExecutable:
		return ModeExecutable
	}
	if len(stored) == 5 {
		return "0" + stored
	}
	return stored
}

// formatTree is the stored form of a tree, in git's order: a directory sorts as
// if its name ended with a slash.
func formatTree(entries []Entry) ([]byte, error) {
	if !slices.IsSortedFunc(entries, treeOrder) {
		entries = slices.Clone(entries)
		slices.SortFunc(entries, treeOrder)
	}
	data := make([]byte, 0, 48*len(entries))
	for i, e := range entries {
		if err := checkName(e.Name); err != nil {
			return nil, err
		}
		if i > 0 && entries[i-1].Name == e.Name {
			return nil, fmt.Errorf("tree entry %q stands twice", e.Name)
		}
		data = append(data, strings.TrimPrefix(e.Mode, "0")...)
		data = append(data, ' ')
		data = append(data, e.Name...)
		data = append(data, 0)
		var err error
		if data, err = hex.AppendDecode(data, []byte(e.Hash)); err != nil || len(e.Hash) != 40 {
			return nil, fmt.Errorf("tree entry %q: %q is not an object id", e.Name, e.Hash)
		}
	}
	return data, nil
}

// treeOrder is git's order of the entries of a tree.
func treeOrder(a, b Entry) int {
	n := min(len(a.Name), len(b.Name))
	if c := strings.Compare(a.Name[:n], b.Name[:n]); c != 0 {
		return c
	}
	return cmp.Compare(endOf(a, n), endOf(b, n))
}

// endOf is the byte that a name has at n in the order of trees.
func endOf(e Entry, n int) int {
	switch {
	case n < len(e.Name):
		return int(e.Name[n])
	case e.Mode == ModeTree:
		return '/'
	}
	return 0
}

// ErrBadPath says that a name must not stand in a tree: git would refuse to
// check it out, or do harm.
var ErrBadPath = errors.New("not allowed in a tree")

// checkName refuses what a tree must never hold, in any letter case.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || strings.EqualFold(name, ".git") {
		return fmt.Errorf("path component %q: %w", name, ErrBadPath)
	}
	return nil
}
