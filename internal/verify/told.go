package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"greenward/internal/git"
)

// maxTold bounds the commits of which it is kept what the forge said last.
const maxTold = 64

// tale is what a forge said of one commit.
type tale struct {
	Commit git.Hash   `json:"commit"`
	Runs   []Reported `json:"runs"`
}

// tales are those of the newest commits that were told of, the last one last.
// They are no evidence: losing them costs at most a wait until they are told again.
type tales []tale

func (t tales) of(commit git.Hash) []Reported {
	i := slices.IndexFunc(t, func(one tale) bool { return one.Commit == commit })
	if i < 0 {
		return nil
	}
	return t[i].Runs
}

func (r *Runner) talesPath() string { return filepath.Join(r.State, "forge.json") }

// told reads the tales; every process on the hub sees the same.
func (r *Runner) told() (tales, error) {
	data, err := os.ReadFile(r.talesPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what the forge said: %w", err)
	}
	var t tales
	if err := json.Unmarshal(data, &t); err != nil {
		t = nil // torn, or of another greenward: it is told again
	}
	return t, nil
}

// remember keeps what the forge said of a commit. Of two writers one wins.
func (r *Runner) remember(commit git.Hash, reported []Reported) error {
	t, err := r.told()
	if err != nil {
		return err
	}
	t = slices.DeleteFunc(t, func(one tale) bool { return one.Commit == commit })
	t = append(t, tale{commit, reported})
	data, err := json.Marshal(t[max(0, len(t)-maxTold):])
	if err != nil {
		return fmt.Errorf("keep what the forge said: %w", err)
	}
	aside, err := os.CreateTemp(r.State, "forge-")
	if err != nil {
		return fmt.Errorf("keep what the forge said: %w", err)
	}
	_, err = aside.Write(data)
	if err = errors.Join(err, aside.Close()); err == nil {
		err = os.Rename(aside.Name(), r.talesPath())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep what the forge said: %w", err), os.Remove(aside.Name()))
	}
	return nil
}
