package agents

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"greenward/internal/git"
)

// BoardReader reads the open work again and again while main moves. Each time
// only the files that differ are read, so that ten thousand open tasks cost what
// changed among them. Boards that it returns are shared: nobody changes them. It
// is safe for concurrent use.
type BoardReader struct {
	Repo *git.Repo // required: the hub
	Run  string    // only this run's tasks; empty: all

	mu    sync.Mutex
	read  bool
	tree  git.Hash             // of tasks/, as it was read last; zero: there was none
	files map[string]boardFile // by path
	ids   []string             // of the tasks among them, sorted
	board Board
}

// boardFile is what one file below tasks/ says.
type boardFile struct {
	id        string // open under this id; empty: its name is no id
	task      *Task
	goal      *Goal
	malformed *MalformedError
}

// At is the board at a commit of main.
func (b *BoardReader) At(main git.Hash) (Board, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	tree, err := b.tasksTree(main)
	if err != nil {
		return Board{}, err
	}
	if b.read && tree == b.tree {
		return b.board, nil
	}
	changed, err := b.changed(tree)
	if err != nil {
		return Board{}, fmt.Errorf("list tasks at %s: %w", main.Short(), err)
	}
	if b.files == nil {
		b.files = map[string]boardFile{}
	}
	sorted := b.read
	b.read = false // until all of it is read
	for _, name := range changed {
		path := "tasks/" + name
		entry, err := git.Entry{}, error(nil)
		if !tree.IsZero() {
			entry, err = b.Repo.Lookup(tree, name)
		}
		if tree.IsZero() || errors.Is(err, git.ErrNotFound) {
			b.put(path, boardFile{}, false)
			continue
		}
		if err != nil {
			return Board{}, fmt.Errorf("look up %q at %s: %w", path, main.Short(), err)
		}
		file, counts, err := b.file(path, entry)
		if err != nil {
			return Board{}, fmt.Errorf("read %q at %s: %w", path, main.Short(), err)
		}
		b.put(path, file, counts)
	}
	if !sorted || b.tree.IsZero() {
		slices.Sort(b.ids)
	}
	b.board = b.gather()
	b.read, b.tree = true, tree
	return b.board, nil
}

// put replaces what is known of one file. While a board is read for the first time
// the ids are only gathered.
func (b *BoardReader) put(path string, file boardFile, counts bool) {
	if had := b.files[path].task; had != nil {
		if at := slices.Index(b.ids, had.ID); at >= 0 {
			b.ids = slices.Delete(b.ids, at, at+1)
		}
	}
	if delete(b.files, path); !counts {
		return
	}
	b.files[path] = file
	if file.task == nil {
		return
	}
	if b.tree.IsZero() {
		b.ids = append(b.ids, file.task.ID)
		return
	}
	at, _ := slices.BinarySearch(b.ids, file.task.ID)
	b.ids = slices.Insert(b.ids, at, file.task.ID)
}

// tasksTree is the tree of tasks/ at a commit; zero: there is none.
func (b *BoardReader) tasksTree(main git.Hash) (git.Hash, error) {
	entry, err := b.Repo.Lookup(main, "tasks")
	if errors.Is(err, git.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look up tasks at %s: %w", main.Short(), err)
	}
	if entry.Mode != git.ModeTree {
		return "", nil
	}
	return entry.Hash, nil
}

// changed names files below tasks/ that are not as they were read.
func (b *BoardReader) changed(tree git.Hash) ([]string, error) {
	if b.read {
		return b.Repo.ChangedFiles(b.tree, tree)
	}
	names, err := b.Repo.ChangedFiles("", tree) // nothing was read, or not all of it
	for path := range b.files {
		names = append(names, strings.TrimPrefix(path, "tasks/"))
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// file reads one file; counts is false for what is nobody's work. Of files of
// other runs only the id counts, for tasks that come after them.
func (b *BoardReader) file(path string, entry git.Entry) (f boardFile, counts bool, err error) {
	rest := strings.TrimPrefix(path, "tasks/")
	name := rest[strings.LastIndexByte(rest, '/')+1:]
	if strings.HasPrefix(name, ".") {
		return f, false, nil // .gitkeep, .gitattributes
	}
	id, isMarkdown := strings.CutSuffix(rest, ".md")
	isGoal := name == "GOAL.md"
	if isGoal {
		id = PlannerOf(id)
	}
	if isMarkdown {
		f.id = id
	}
	if b.Run != "" && RunOf(rest) != b.Run {
		return f, isMarkdown, nil
	}
	malformed := func(problem, cure string) (boardFile, bool, error) {
		f.malformed = &MalformedError{path, problem, cure}
		return f, true, nil
	}
	switch {
	case name == rest:
		return malformed("it lies outside of any run", "move it into tasks/<run>/")
	case !isMarkdown:
		return malformed("its name does not end in .md", "rename it, or keep it out of tasks/")
	case entry.Mode != git.ModeFile && entry.Mode != git.ModeExecutable:
		return malformed("it is no regular file", "replace the link by a file")
	}
	data, err := b.Repo.Blob(entry.Hash)
	if err != nil {
		return f, false, err
	}
	if isGoal {
		if err := CheckID(id); err != nil {
			return malformed(err.Error(), "rename the directory")
		}
		f.goal = &Goal{Planner: id, Text: strings.ToValidUTF8(string(data), "\ufffd")}
		return f, true, nil
	}
	task, err := ParseTask(id, data)
	if found, ok := errors.AsType[*MalformedError](err); ok {
		f.malformed = found
		return f, true, nil
	}
	f.task = &task
	return f, true, err
}

// gather makes a board of the files.
func (b *BoardReader) gather() Board {
	board := Board{open: make(map[string]bool, len(b.files))}
	for _, f := range b.files {
		if f.id != "" {
			board.open[f.id] = true
		}
		switch {
		case f.goal != nil:
			board.Goals = append(board.Goals, *f.goal)
		case f.malformed != nil:
			board.Malformed = append(board.Malformed, f.malformed)
		}
	}
	board.Tasks = make([]Task, 0, len(b.ids))
	for _, id := range b.ids {
		board.Tasks = append(board.Tasks, *b.files[TaskPath(id)].task)
	}
	order(&board)
	return board
}
