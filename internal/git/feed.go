package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"greenward/internal/proc"
)

// Feed reads what changes consist of before it is wanted, many objects at a time,
// through one long-lived git cat-file: git inflates three times as fast as Go
// does, and on another core. Not safe for concurrent use; Close must be called in
// the end.
type Feed struct {
	repo *Repo
	p    *proc.Process // nil: none runs
	held bool          // files are remembered for it
}

// Bounds of what a Feed keeps for its reader: of one file, of all files that one
// call brings, and how many of them it asks for.
const (
	maxFed      = 1 << 20
	maxFedAll   = 64 << 20
	maxFedFiles = 2_000
)

// Feed is a feed of the repository's memory.
func (r *Repo) Feed() *Feed { return &Feed{repo: r} }

// Bring has the repository remember the commits given, their first parents, the
// folders in which the two differ, and, until it is called again, the files that
// the commits changed. What is not there is left out.
func (f *Feed) Bring(ctx context.Context, heads []Hash) error {
	f.repo.kept.hold(nil)
	f.held = true
	if _, err := f.fetch(ctx, heads); err != nil {
		return err
	}
	var parents []Hash
	for _, h := range heads {
		if c, ok := f.commit(h); ok {
			parents = append(parents, c.Parent())
		}
	}
	if _, err := f.fetch(ctx, parents); err != nil {
		return err
	}
	var level [][2]Hash
	for _, h := range heads {
		c, ok := f.commit(h)
		if !ok {
			continue
		}
		if p, ok := f.commit(c.Parent()); ok && p.Tree != c.Tree {
			level = append(level, [2]Hash{p.Tree, c.Tree})
		}
	}
	var files []Hash
	for len(level) > 0 {
		var trees []Hash
		for _, pair := range level {
			trees = append(trees, pair[:]...)
		}
		if _, err := f.fetch(ctx, trees); err != nil {
			return err
		}
		var below [][2]Hash
		for _, pair := range level {
			below, files = f.differ(pair, below, files)
		}
		level = below
	}
	blobs, err := f.fetch(ctx, files[:min(len(files), maxFedFiles)])
	f.repo.kept.hold(blobs)
	return err
}

// commit is a commit that was fetched, or held before.
func (f *Feed) commit(h Hash) (Commit, bool) {
	kind, raw, ok := f.repo.remembered(h)
	if !ok || kind != plumbing.CommitObject {
		return Commit{}, false
	}
	c, err := parseCommit(h, raw)
	return c, err == nil // what is malformed is said by whoever judges it
}

// differ adds the folders and the new files in which two trees differ.
func (f *Feed) differ(pair [2]Hash, below [][2]Hash, files []Hash) ([][2]Hash, []Hash) {
	for _, h := range pair {
		if _, _, ok := f.repo.remembered(h); !ok && !h.IsZero() && h != EmptyTree {
			return below, files
		}
	}
	differing, err := f.repo.Differing(pair[0], pair[1])
	if err != nil {
		return below, files // whoever takes it up says so
	}
	for _, d := range differing {
		if d[0].Mode == ModeTree || d[1].Mode == ModeTree {
			var pair [2]Hash
			for i, e := range d {
				if e.Mode == ModeTree {
					pair[i] = e.Hash
				}
			}
			below = append(below, pair)
		}
		if b := d[1]; b.Mode == ModeFile || b.Mode == ModeExecutable {
			files = append(files, b.Hash)
		}
	}
	return below, files
}

// fetch reads objects that are not remembered yet: commits and trees into the
// repository's memory, files into the map that it gives.
func (f *Feed) fetch(ctx context.Context, list []Hash) (map[Hash]object, error) {
	var ask strings.Builder
	asked := map[Hash]bool{}
	for _, h := range list {
		if _, err := ParseHash(string(h)); err != nil || h == EmptyTree || asked[h] {
			continue // a commit may name anything as its parent
		}
		if _, _, ok := f.repo.remembered(h); ok {
			continue
		}
		asked[h] = true
		ask.WriteString("contents " + string(h) + "\n")
	}
	if len(asked) == 0 {
		return nil, nil
	}
	if f.p == nil {
		if err := f.start(ctx); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, local)
	defer cancel()
	defer context.AfterFunc(ctx, f.p.Kill)()
	if _, err := io.WriteString(f.p.Stdin, ask.String()+"flush\n"); err != nil {
		return nil, errors.Join(fmt.Errorf("ask git for objects: %w", err), f.Close())
	}
	blobs, size := map[Hash]object{}, 0
	for range asked {
		h, o, err := f.read()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read objects from git: %w", err), f.Close())
		}
		switch {
		case o.data == nil:
		case o.kind == plumbing.BlobObject:
			if size += len(o.data); size <= maxFedAll {
				blobs[h] = o
			}
		default:
			f.repo.kept.keep(h, o.kind, o.data)
		}
	}
	return blobs, nil
}

func (f *Feed) start(ctx context.Context) error {
	args := []string{"--no-replace-objects", "--git-dir=" + f.repo.dir}
	for _, setting := range settings() {
		args = append(args, "-c", setting)
	}
	var err error
	f.p, err = proc.Start(context.WithoutCancel(ctx), proc.Command{
		Name: "git", Args: append(args, "cat-file", "--batch-command", "--buffer"), Dir: f.repo.dir, Env: f.repo.environment(call{}),
	})
	return err
}

// read reads one answer: "<id> <kind> <size>", the content and a line feed, or
// "<id> missing". An object that is not kept has no data.
func (f *Feed) read() (Hash, object, error) {
	line, err := f.p.Stdout.ReadString('\n')
	if err != nil {
		return "", object{}, err
	}
	words := strings.Fields(line)
	if len(words) == 2 {
		return Hash(words[0]), object{}, nil
	}
	if len(words) != 3 {
		return "", object{}, fmt.Errorf("%q is no answer", line)
	}
	size, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return "", object{}, fmt.Errorf("%q is no answer", line)
	}
	kind, err := plumbing.ParseObjectType(words[1])
	if err != nil {
		return "", object{}, fmt.Errorf("%q is no answer", line)
	}
	o := object{kind: kind}
	if size > maxFed {
		_, err = io.CopyN(io.Discard, f.p.Stdout, size+1)
		return Hash(words[0]), o, err
	}
	data := make([]byte, size+1)
	_, err = io.ReadFull(f.p.Stdout, data)
	o.data = data[:size:size]
	return Hash(words[0]), o, err
}

// Close ends the long-lived git and forgets the files.
func (f *Feed) Close() error {
	if f.held { // else they are those of another one
		f.repo.kept.hold(nil)
	}
	if f.p == nil {
		return nil
	}
	p := f.p
	f.p = nil
	bounded := time.AfterFunc(sessionStart, p.Kill)
	_, err := p.Wait()
	bounded.Stop()
	return err
}
