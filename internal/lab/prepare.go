package lab

import (
	"bytes"
	"context"
	"fmt"
	"path"

	"greenward/internal/git"
)

// prepare makes all changes, of one file each, on main.
func (l *Land) prepare(ctx context.Context, repo *git.Repo, out *LandReport) error {
	list, err := repo.RevList(ctx, []git.Hash{l.Main}, nil)
	if err != nil {
		return err
	}
	out.Commits = len(list)
	return l.prepareOn(ctx, repo, l.Main, l.Changes, out)
}

// prepareOn makes so many changes more, of one file each, on a commit.
func (l *Land) prepareOn(ctx context.Context, repo *git.Repo, main git.Hash, changes int, out *LandReport) error {
	files, err := repo.Files(main, "")
	if err != nil {
		return err
	}
	out.Files = len(files)
	stage := repo.Stage()
	every := 0
	if l.SameFile > 0 {
		every = max(2, int(1/l.SameFile+0.5))
	}
	pick := picker{repo: repo, main: main, files: files, step: step(len(files)), n: len(l.heads)}
	if !l.Grow {
		pick.n = 0 // the same files again, as far as there are some
	}
	var last place
	for i := range changes {
		name := fmt.Sprintf("lab-%06d", len(l.heads))
		again := every > 0 && i%every == every-1 && last.text != nil
		at := last
		if !again {
			if at, err = pick.next(every > 0); err != nil {
				return err
			}
		}
		p := prepared{name: name, path: at.path}
		if p.head, p.blob, err = l.change(stage, main, p, at.text, again); err != nil {
			return err
		}
		if last = at; again {
			out.SameFile++
			last = place{}
		}
		l.heads = append(l.heads, p)
		if stage.Pending() > 5_000 {
			if err := stage.Flush(ctx); err != nil {
				return err
			}
		}
	}
	return stage.Flush(ctx)
}

// place is a file to change.
type place struct {
	path string
	text []byte // nil: it is new
}

// picker gives files far apart from each other, then new ones beside them.
type picker struct {
	repo  *git.Repo
	main  git.Hash
	files []string
	step  int // shares no factor with the count, so that every file has its turn
	n     int
}

// next is a file that can take a comment; a long one, for two changes to meet in peace.
func (p *picker) next(long bool) (place, error) {
	for p.n < len(p.files) {
		at := place{path: p.files[p.n*p.step%len(p.files)]}
		p.n++
		if _, ok := comment(at.path, ""); !ok {
			continue
		}
		entry, err := p.repo.Lookup(p.main, at.path)
		if err != nil {
			return at, err
		}
		if entry.Mode != git.ModeFile {
			continue
		}
		if at.text, err = p.repo.Blob(entry.Hash); err != nil {
			return at, err
		}
		if !long || bytes.Count(at.text, []byte("\n")) >= 8 {
			return at, nil
		}
	}
	p.n++
	return place{path: path.Join(path.Dir(p.files[p.n*p.step%len(p.files)]), fmt.Sprintf("lab-%d.txt", p.n))}, nil
}

// comment is a text as a line that changes no meaning of a file, if there is one.
func comment(name, text string) (string, bool) {
	switch path.Ext(name) {
	case ".go", ".js", ".ts", ".c", ".h", ".rs", ".java":
		return "// " + text + "\n", true
	case ".txt", ".md", ".rst":
		return text + "\n", true
	case ".yaml", ".yml", ".toml", ".sh", ".py", ".rb":
		return "# " + text + "\n", true
	}
	return "", false
}

// step is a number near a third of n that shares no factor with it.
func step(n int) int {
	common := func(a, b int) int {
		for b != 0 {
			a, b = b, a%b
		}
		return a
	}
	for s := max(1, n/3); ; s++ {
		if common(s, n) == 1 {
			return s
		}
	}
}

// change makes a change of one file: it gets a comment, in place of one that an
// earlier change of this kind left at its end.
func (l *Land) change(stage *git.Stage, main git.Hash, p prepared, old []byte, above bool) (head, blob git.Hash, err error) {
	added, _ := comment(p.path, p.name)
	if at := bytes.LastIndex(old, []byte("\n\n")); at >= 0 && len(old)-at-2 == len(added) && bytes.Contains(old[at:], []byte("lab-")) {
		old = old[:at+1]
	}
	text := append(bytes.Clone(old), "\n"+added...)
	if above {
		text = append([]byte(added+"\n"), old...)
	}
	if blob, err = stage.WriteBlob(text); err != nil {
		return "", "", err
	}
	tree, err := stage.EditTree(main, []git.Edit{{Path: p.path, Hash: blob}})
	if err != nil {
		return "", "", err
	}
	who := git.Identity{Name: "Ada", Email: "ada@example.com", When: l.Now()}
	head, err = stage.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{main}, Author: who, Committer: who, Message: "touch " + p.name + "\n"})
	return head, blob, err
}
