package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"greenward/internal/proc"
)

// session is one git merge-tree --stdin. It reads the repository and writes into
// a scratch directory of its own, which goes with it.
type session struct {
	p       *proc.Process
	dir     string // the scratch objects
	release func() error
	stage   *stage
	epoch   int // of the stage whose objects were spilled
	spilled int
	objects int // in the scratch directory, about
}

// maxScratch is how many objects a session writes before another one takes over.
const maxScratch = 20_000

// sessionStart bounds the first answer: a git whose output stays in its buffer
// never gives one.
const sessionStart = 5 * time.Second

// scratchPrefix begins the names of scratch directories.
const scratchPrefix = "greenward-merge-"

// session starts one, and has it merge a commit with itself to see that it answers.
func (s *Stage) session(ctx context.Context, some Hash) (*session, error) {
	dir, release, err := s.scratch()
	if err != nil {
		return nil, err
	}
	k := &session{dir: dir, release: release, stage: s.s}
	args := []string{"--no-replace-objects", "--git-dir=" + s.dir}
	for _, setting := range append(settings(), "core.looseCompression=0", "core.fsync=none") {
		args = append(args, "-c", setting)
	}
	c := call{}
	command := proc.Command{
		Name: "git", Args: append(args, "merge-tree", "--write-tree", "--stdin", "-z", "--name-only", "--no-messages", "--allow-unrelated-histories"),
		Dir: s.dir, Env: append(s.environment(c), "GIT_OBJECT_DIRECTORY="+dir),
	}
	// Before 2.49 git does not flush what it says on a pipe.
	wrapped := command
	wrapped.Name, wrapped.Args = "stdbuf", append([]string{"-o0", "git"}, command.Args...)
	k.p, err = proc.Start(context.WithoutCancel(ctx), wrapped)
	if errors.Is(err, proc.ErrNotFound) {
		k.p, err = proc.Start(context.WithoutCancel(ctx), command)
	}
	if err != nil {
		return nil, errors.Join(err, k.close())
	}
	hello, cancel := context.WithTimeout(ctx, sessionStart)
	defer cancel()
	if _, err := k.merge(hello, some, some); err != nil {
		return nil, errors.Join(errSilent, err, k.close())
	}
	return k, nil
}

// scratch makes a directory for objects that reads on in the repository's, and
// removes those that dead processes left. Memory is preferred: nothing of it is
// to survive.
func (s *Stage) scratch() (dir string, release func() error, err error) {
	parent := "/dev/shm"
	if info, err := os.Stat(parent); err != nil || !info.IsDir() {
		parent = filepath.Join(s.dir, "greenward", "work")
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return "", nil, fmt.Errorf("make a scratch directory: %w", err)
		}
	}
	left, err := filepath.Glob(filepath.Join(parent, scratchPrefix+"*"))
	if err != nil {
		return "", nil, fmt.Errorf("look for scratch directories: %w", err)
	}
	for _, old := range left {
		if unlock, err := proc.Lock(filepath.Join(old, "lock")); err == nil {
			// Whose it was is dead; what cannot be removed is tried again by the next.
			_ = os.RemoveAll(old)
			_ = unlock()
		}
	}
	if dir, err = os.MkdirTemp(parent, scratchPrefix); err != nil {
		return "", nil, fmt.Errorf("make a scratch directory: %w", err)
	}
	if release, err = proc.Lock(filepath.Join(dir, "lock")); err == nil {
		err = os.Mkdir(filepath.Join(dir, "info"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "info", "alternates"), []byte(alternate(filepath.Join(s.dir, "objects"))+"\n"), 0o600)
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("make a scratch directory: %w", err), os.RemoveAll(dir))
	}
	return dir, release, nil
}

func (k *session) close() error {
	var err error
	if k.p != nil {
		bounded := time.AfterFunc(sessionStart, k.p.Kill)
		_, err = k.p.Wait()
		bounded.Stop()
	}
	return errors.Join(err, os.RemoveAll(k.dir), k.release())
}

// merge asks for one merge. When ctx or the time of a command ends, the session
// does too.
func (k *session) merge(ctx context.Context, ours, theirs Hash) (Merged, error) {
	ctx, cancel := context.WithTimeout(ctx, local)
	defer cancel()
	defer context.AfterFunc(ctx, k.p.Kill)()
	if _, err := io.WriteString(k.p.Stdin, string(ours)+" "+string(theirs)+"\n"); err != nil {
		return Merged{}, fmt.Errorf("ask git for a merge: %w", err)
	}
	k.objects += 4
	m, err := readAnswer(k.p.Stdout)
	if err != nil {
		return Merged{}, fmt.Errorf("read a merge from git: %w", err)
	}
	return m, nil
}

// readAnswer reads "1" or "0", the tree, the paths that conflict, and the empty
// word that ends them.
func readAnswer(in *bufio.Reader) (Merged, error) {
	var words []string
	for len(words) < 3 || words[len(words)-1] != "" {
		word, err := in.ReadString(0)
		if err != nil {
			return Merged{}, err
		}
		words = append(words, strings.TrimSuffix(word, "\x00"))
	}
	tree, err := ParseHash(words[1])
	if err != nil || words[0] != "0" && words[0] != "1" {
		return Merged{}, fmt.Errorf("%q is no answer", words)
	}
	if words[0] == "1" {
		return Merged{Tree: tree}, nil
	}
	m := Merged{Conflicts: words[2 : len(words)-1]}
	if len(m.Conflicts) == 0 {
		m.Conflicts = []string{"."} // git named no path, yet it did not merge
	}
	return m, nil
}

// spill writes what the stage collected where the session looks.
func (k *session) spill(s *Stage) error {
	epoch, order, list := s.s.since(k.epoch, k.spilled)
	if epoch != k.epoch {
		k.epoch, k.spilled = epoch, 0
	}
	for i, h := range order {
		if err := k.store(s.Repo, h, list[i]); err != nil {
			return err
		}
	}
	k.spilled += len(order)
	return nil
}

func (k *session) store(r *Repo, h Hash, o object) error {
	data, err := r.deflateLoose(o)
	if err != nil {
		return err
	}
	k.objects++
	dir := filepath.Join(k.dir, string(h[:2]))
	if err := r.files().Put(dir, string(h[2:]), data, false); err != nil {
		return fmt.Errorf("write %s aside: %w", h.Short(), err)
	}
	return nil
}

// sides are the commits to merge: with a base, commits that have it as their only
// parent, which are nowhere but in the scratch directory.
func (k *session) sides(s *Stage, in MergeInput) (ours, theirs Hash, err error) {
	if in.Base.IsZero() {
		return in.Ours, in.Theirs, nil
	}
	sides := [2]Hash{in.Ours, in.Theirs}
	for i, h := range sides {
		raw, err := s.mergeSide(in.Base, h)
		if err != nil {
			return "", "", err
		}
		if raw == nil {
			continue
		}
		sides[i] = nameOf(plumbing.CommitObject, raw)
		if err := k.store(s.Repo, sides[i], object{kind: plumbing.CommitObject, data: raw}); err != nil {
			return "", "", err
		}
	}
	return sides[0], sides[1], nil
}

// collect puts into the stage what git wrote for a merge: what hangs on e and is
// in none of the trees that it was made from.
func (k *session) collect(s *Stage, e Entry, from []Hash) error {
	var known [][]Entry
	for _, tree := range from {
		if tree == e.Hash {
			return nil
		}
		entries, err := s.treeEntries(tree)
		if err != nil {
			return err
		}
		known = append(known, entries)
	}
	o, found, err := k.load(s, e.Hash)
	if err != nil || !found {
		return err
	}
	entries, err := parseTree(o.data)
	if err != nil {
		return err
	}
	s.s.add(e.Hash, o.kind, o.data)
	for _, below := range entries {
		var dirs []Hash
		same := below.Mode == ModeSubmodule
		for _, list := range known {
			at, has := slices.BinarySearchFunc(list, below, treeOrder)
			if has && below.Mode == ModeTree {
				dirs = append(dirs, list[at].Hash)
			}
			same = same || has && list[at].Hash == below.Hash
		}
		if same {
			continue
		}
		if below.Mode == ModeTree {
			if err := k.collect(s, below, dirs); err != nil {
				return err
			}
			continue
		}
		if o, found, err := k.load(s, below.Hash); err != nil {
			return err
		} else if found {
			s.s.add(below.Hash, o.kind, o.data)
		}
	}
	return nil
}

// load reads an object that git merged: from the scratch directory or, where git found
// a file of its name in the repository and wrote none, from there, to be stored anew:
// nothing says that what lies there reached the disk. What is in a pack is not loaded.
func (k *session) load(s *Stage, h Hash) (object, bool, error) {
	file, err := os.ReadFile(filepath.Join(k.dir, string(h[:2]), string(h[2:])))
	if errors.Is(err, os.ErrNotExist) {
		return s.lying(h)
	}
	if err != nil {
		return object{}, false, fmt.Errorf("read what git merged: %w", err)
	}
	o, err := inflateLoose(file)
	if err == nil && nameOf(o.kind, o.data) != h {
		err = errors.New("its content has another name")
	}
	if err != nil {
		return object{}, false, fmt.Errorf("read %s that git merged: %w", h.Short(), err)
	}
	return o, true, nil
}
