package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"greenward/internal/git"
	"greenward/internal/proc"
	"greenward/queue"
)

// Flat measures whether landing gets dearer with the length of the history, or with
// the number of files: on three made repositories, round by round in turn, so that
// what else the machine does meets all three alike.
type Flat struct {
	Dir     string    // required: an empty directory
	Host    proc.Host // required
	Changes int       // required: of each repository
	Batch   int       // required: landings a transaction
	Now     func() time.Time
	Say     func(format string, args ...any)
}

// FlatReport is what a Flat found.
type FlatReport struct {
	Changes int       `json:"changes"`
	Rows    []FlatRow `json:"rows"` // the small one first
}

// FlatRow is one repository.
type FlatRow struct {
	Commits   int     `json:"commits"`
	Files     int     `json:"files"`
	PerSecond float64 `json:"per_second"`
	CPU       float64 `json:"cpu_ms"`    // a landing
	Times     float64 `json:"times"`     // how many times as long as on the small one
	TimesCPU  float64 `json:"times_cpu"` // how many times as much processor time
}

// The small repository, and how much more the others have.
const (
	smallCommits = 100
	smallFiles   = 300
	moreCommits  = 100
	moreFiles    = 30

	flatRound = 250 // changes that wait at once: each touches a file of its own
)

// hill is one repository at work.
type hill struct {
	row    FlatRow
	land   *Land
	repo   *git.Repo
	lander *queue.Lander
	cost   cost
}

// Run makes the repositories, lands on them in turn, and compares.
func (f *Flat) Run(ctx context.Context) (out FlatReport, err error) {
	out.Changes = f.Changes
	var hills []*hill
	defer func() {
		for _, h := range hills {
			err = errors.Join(err, h.lander.Close())
		}
	}()
	for i, shape := range [][2]int{{smallCommits, smallFiles}, {smallCommits * moreCommits, smallFiles}, {smallCommits, smallFiles * moreFiles}} {
		h, err := f.make(ctx, filepath.Join(f.Dir, fmt.Sprint("made", i, ".git")), shape[0], shape[1])
		if err != nil {
			return out, err
		}
		hills = append(hills, h)
	}
	for n := 0; n <= f.Changes/flatRound; n++ {
		for _, h := range hills {
			cost, err := h.land.round(ctx, h.repo, h.lander, flatRound)
			if err != nil {
				return out, fmt.Errorf("land on %d commits and %d files: %w", h.row.Commits, h.row.Files, err)
			}
			if n == 0 {
				continue // it reads what history there is
			}
			h.cost.landed, h.cost.took, h.cost.cpu = h.cost.landed+cost.landed, h.cost.took+cost.took, h.cost.cpu+cost.cpu
		}
		f.Say("round %d of %d", n+1, f.Changes/flatRound+1)
	}
	for _, h := range hills {
		h.row.PerSecond = float64(h.cost.landed) / h.cost.took.Seconds()
		h.row.CPU = h.cost.cpu.Seconds() * 1000 / float64(h.cost.landed)
		h.row.Times = hills[0].row.PerSecond / h.row.PerSecond
		h.row.TimesCPU = h.row.CPU / hills[0].row.CPU
		out.Rows = append(out.Rows, h.row)
	}
	return out, nil
}

// make makes a repository of so many commits, each of one file, and so many files,
// twenty in a folder and some thirty folders in each above them.
func (f *Flat) make(ctx context.Context, dir string, commits, files int) (*hill, error) {
	repo, err := git.InitBare(ctx, dir, f.Host)
	if err != nil {
		return nil, err
	}
	p, err := proc.Start(ctx, proc.Command{
		Name: "git", Args: []string{"fast-import", "--quiet", "--done"}, Dir: dir, Timeout: rivalTime,
		Env: append(f.Host.Only("PATH", "TMPDIR"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_DIR="+dir),
	})
	if err != nil {
		return nil, err
	}
	began := f.Now().Add(-time.Duration(commits) * time.Minute)
	write := func(n int, paths ...int) error {
		when := began.Add(time.Duration(n) * time.Minute)
		if _, err := fmt.Fprintf(p.Stdin, "commit refs/heads/main\n%s", signed(fmt.Sprintf("commit %d\n", n), when)); err != nil {
			return err
		}
		for _, i := range paths {
			text := fmt.Sprintf("file %d\nas of %d\n", i, n)
			if _, err := fmt.Fprintf(p.Stdin, "M 100644 inline d%d/e%d/f%d.txt\ndata %d\n%s\n", i/600, i/20%30, i%20, len(text), text); err != nil {
				return err
			}
		}
		return nil
	}
	all := make([]int, files)
	for i := range all {
		all[i] = i
	}
	err = write(0, all...)
	for n := 1; err == nil && n < commits; n++ {
		err = write(n, n*7%files)
	}
	if err == nil {
		_, err = io.WriteString(p.Stdin, "done\n")
	}
	result, ended := p.Wait()
	if ended == nil && !result.OK() {
		ended = fmt.Errorf("fast-import ended with %s", result)
	}
	if err := errors.Join(err, ended); err != nil {
		return nil, fmt.Errorf("make a repository of %d commits and %d files: %w", commits, files, err)
	}
	main, err := repo.Resolve("refs/heads/main")
	if err != nil {
		return nil, err
	}
	return &hill{
		row:    FlatRow{Commits: commits, Files: files},
		land:   &Land{Source: repo, Main: main, Dir: f.Dir, Now: f.Now, Say: f.Say},
		repo:   repo,
		lander: &queue.Lander{Hub: &git.Hub{Repo: repo}, Now: f.Now, By: "lab", Batch: f.Batch},
	}, nil
}
