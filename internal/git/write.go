package git

import (
	"crypto/sha1" //nolint:gosec // git's object names are SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// WriteBlob stores data.
func (r *Repo) WriteBlob(data []byte) (Hash, error) { return r.write(plumbing.BlobObject, data) }

// WriteTree stores a tree; the entries may come in any order. The empty tree is
// stored too.
func (r *Repo) WriteTree(entries []Entry) (Hash, error) {
	data, err := formatTree(entries)
	if err != nil {
		return "", fmt.Errorf("write tree: %w", err)
	}
	return r.write(plumbing.TreeObject, data)
}

// writeParsed is WriteTree of entries in git's order, which are remembered: the
// next merge reads them. They must not be changed afterwards.
func (r *Repo) writeParsed(entries []Entry) (Hash, error) {
	data, err := formatTree(entries)
	if err != nil {
		return "", fmt.Errorf("write tree: %w", err)
	}
	h, err := r.writeRaw(data)
	if err != nil {
		return "", err
	}
	r.home().kept.parsed(h, entries)
	return h, nil
}

// CommitInput is a commit to be written.
type CommitInput struct {
	Tree              Hash // required
	Parents           []Hash
	Author, Committer Identity
	Message           string // required
	Signer            Signer // nil: unsigned
}

// WriteCommit stores a commit. It moves no ref.
func (r *Repo) WriteCommit(in CommitInput) (Hash, error) {
	if in.Tree == EmptyTree { // git knows it unwritten, and its fsck wants it all the same
		if _, err := r.write(plumbing.TreeObject, nil); err != nil {
			return "", err
		}
	}
	var head strings.Builder
	fmt.Fprintf(&head, "tree %s\n", in.Tree)
	for _, p := range in.Parents {
		fmt.Fprintf(&head, "parent %s\n", p)
	}
	fmt.Fprintf(&head, "author %s\ncommitter %s\n", in.Author, in.Committer)
	if strings.TrimSpace(in.Message) == "" || strings.ContainsRune(in.Message, 0) {
		return "", errors.New("write commit: its message is empty or holds a NUL byte")
	}
	if !strings.HasSuffix(in.Message, "\n") {
		in.Message += "\n"
	}
	signature := ""
	if in.Signer != nil {
		armored, err := in.Signer.Sign("git", []byte(head.String()+"\n"+in.Message))
		if err != nil {
			return "", fmt.Errorf("sign commit: %w", err)
		}
		signature = "gpgsig " + strings.ReplaceAll(strings.TrimRight(armored, "\n"), "\n", "\n ") + "\n"
	}
	return r.write(plumbing.CommitObject, []byte(head.String()+signature+"\n"+in.Message))
}

// write stores one loose object, whole or not at all: it is written aside and
// renamed, so that a killed process leaves at worst a stray temporary file. On a
// Stage it is only collected.
func (r *Repo) write(kind plumbing.ObjectType, data []byte) (Hash, error) {
	h := nameOf(kind, data)
	if r.of != nil {
		if h != EmptyTree || !r.of.stage.hasEmpty() {
			r.of.stage.add(h, kind, data)
		}
		return h, nil
	}
	dir := filepath.Join(r.dir, "objects", string(h[:2]))
	if _, there, err := r.lying(h); err == nil && there {
		return h, nil // else a torn one is written over
	}
	file, err := r.deflateLoose(object{kind: kind, data: data})
	if err == nil {
		err = r.files().Put(dir, string(h[2:]), file, false)
	}
	if err != nil {
		return "", fmt.Errorf("write %s %s: %w", kind, h.Short(), err)
	}
	return h, nil
}

// nameOf is the name that git gives an object.
func nameOf(kind plumbing.ObjectType, data []byte) Hash {
	sum := sha1.New() //nolint:gosec // git's object names are SHA-1
	sum.Write(fmt.Appendf(nil, "%s %d\x00", kind, len(data)))
	sum.Write(data)
	return Hash(hex.EncodeToString(sum.Sum(nil)))
}

// Edit is one path to change in a tree.
type Edit struct {
	Path string // required; slashes, no leading one
	Hash Hash   // the blob, or the zero Hash to delete the path
	Mode string // default: ModeFile
}

// EditTree stores root with the edits applied; directories that become empty
// vanish. Deleting what is not there is no error.
func (r *Repo) EditTree(root Hash, edits []Edit) (Hash, error) {
	tree, err := r.TreeOf(root)
	if err != nil {
		return "", err
	}
	below := map[string][]Edit{} // by first component
	for _, e := range edits {
		first, rest, deeper := strings.Cut(e.Path, "/")
		if err := checkName(first); err != nil {
			return "", fmt.Errorf("edit %q: %w", e.Path, err)
		}
		if !deeper {
			rest = ""
		}
		below[first] = append(below[first], Edit{rest, e.Hash, e.Mode})
	}
	return r.editDir(tree, below)
}

func (r *Repo) editDir(tree Hash, below map[string][]Edit) (Hash, error) {
	old, err := r.Entries(tree, "")
	if err != nil {
		return "", err
	}
	had := map[string]Entry{}
	var kept []Entry
	for _, e := range old {
		had[e.Name] = e
		if _, edited := below[e.Name]; !edited {
			kept = append(kept, e)
		}
	}
	for name, edits := range below {
		entry, err := r.editEntry(name, had[name], edits)
		if err != nil {
			return "", err
		}
		if !entry.Hash.IsZero() {
			kept = append(kept, entry)
		}
	}
	return r.WriteTree(kept)
}

// editEntry applies the edits of one name: to the name itself, or below it.
func (r *Repo) editEntry(name string, had Entry, edits []Edit) (Entry, error) {
	var deeper []Edit
	entry := had
	for _, e := range edits {
		if e.Path != "" {
			deeper = append(deeper, e)
			continue
		}
		entry = Entry{Mode: e.Mode, Name: name, Hash: e.Hash}
		if e.Mode == "" {
			entry.Mode = ModeFile
		}
	}
	if len(deeper) == 0 {
		return entry, nil
	}
	tree := EmptyTree
	if entry.Mode == ModeTree && !entry.Hash.IsZero() {
		tree = entry.Hash
	} else if _, err := r.WriteTree(nil); err != nil {
		return Entry{}, err
	}
	edited, err := r.EditTree(tree, deeper)
	if err != nil || edited == EmptyTree {
		return Entry{}, err
	}
	return Entry{Mode: ModeTree, Name: name, Hash: edited}, nil
}

// WithoutTasks is the tree of treeish without the task files of its top-level
// tasks/ directory, which checks, reverts and repairs never see: those that end in
// .md. What else somebody put there is part of the project, and stays.
func (r *Repo) WithoutTasks(treeish Hash) (Hash, error) {
	entry, err := r.Lookup(treeish, "tasks")
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", err
	}
	rest, err := r.noTasks(entry)
	if err != nil {
		return "", err
	}
	return r.replaceTop(treeish, "tasks", rest)
}

// noTasks is an entry below tasks/ without task files; the zero Entry: nothing is left.
func (r *Repo) noTasks(e Entry) (Entry, error) {
	if e.Mode != ModeTree || e.Hash.IsZero() {
		if e.Mode == ModeFile && strings.HasSuffix(e.Name, ".md") {
			return Entry{}, nil
		}
		return e, nil
	}
	inside, err := r.Entries(e.Hash, "")
	if err != nil {
		return Entry{}, err
	}
	var kept []Entry
	for _, one := range inside {
		rest, err := r.noTasks(one)
		if err != nil {
			return Entry{}, err
		}
		if !rest.Hash.IsZero() {
			kept = append(kept, rest)
		}
	}
	if len(kept) == 0 {
		return Entry{}, nil
	}
	e.Hash, err = r.WriteTree(kept)
	return e, err
}

// WithTasksOf is tree with its top-level tasks/ directory replaced by that of
// other, or without one if other has none.
func (r *Repo) WithTasksOf(tree, other Hash) (Hash, error) {
	entry, err := r.Lookup(other, "tasks")
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", err
	}
	return r.replaceTop(tree, "tasks", entry)
}

func (r *Repo) replaceTop(treeish Hash, name string, with Entry) (Hash, error) {
	old, err := r.Entries(treeish, "")
	if err != nil {
		return "", err
	}
	var kept []Entry
	for _, e := range old {
		if e.Name != name {
			kept = append(kept, e)
		}
	}
	if !with.Hash.IsZero() {
		kept = append(kept, with)
	}
	return r.WriteTree(kept)
}
