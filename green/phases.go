package green

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Phase is when a cycle began to spend its time on one cause of lag.
type Phase struct {
	Cause string    `json:"cause"`
	From  time.Time `json:"from"`
}

// diary is what the cycle at work writes down about its phases, in memory for
// the log and in a file for whoever asks meanwhile, or after it was killed.
type diary struct {
	path   string
	phases []Phase
}

func (e *Engine) diaryPath() string { return filepath.Join(e.Hub.State(), "lock", "green.started") }

// begin opens the diary. What a cycle that died or failed left in it stays part
// of the story: since its last word, the promoter was at fault.
func (e *Engine) begin() (*diary, error) {
	d := &diary{path: e.diaryPath()}
	left, err := readDiary(d.path)
	if err != nil {
		return nil, err
	}
	if n := len(left); n > 0 {
		d.phases = append(left, Phase{CausePromoter, left[n-1].From})
	}
	return d, d.enter(CauseRunning, e.Now())
}

// enter notes that from now on time goes to a cause.
func (d *diary) enter(cause string, now time.Time) error {
	if n := len(d.phases); n > 0 && d.phases[n-1].Cause == cause {
		return nil
	}
	d.phases = append(d.phases, Phase{cause, now.UTC()})
	var text strings.Builder
	for _, p := range d.phases {
		text.WriteString(p.From.Format(time.RFC3339Nano) + " " + p.Cause + "\n")
	}
	aside := d.path + ".new"
	if err := os.WriteFile(aside, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("note what the cycle does: %w", err)
	}
	if err := os.Rename(aside, d.path); err != nil {
		return fmt.Errorf("note what the cycle does: %w", err)
	}
	return nil
}

// end closes the diary of a cycle that came to an end of its own.
func (d *diary) end() error {
	if err := os.Remove(d.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("note the cycle's end: %w", err)
	}
	return nil
}

func readDiary(path string) ([]Phase, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what the cycle does: %w", err)
	}
	var all []Phase
	for line := range strings.Lines(string(text)) {
		at, cause, _ := strings.Cut(strings.TrimSpace(line), " ")
		if from, err := time.Parse(time.RFC3339Nano, at); err == nil { // a torn line says nothing
			all = append(all, Phase{cause, from})
		}
	}
	return all, nil
}

// present is what the cycle at work has done so far, and whether there is one.
// Without one, the diary is that of a cycle that died or failed.
func (e *Engine) present() ([]Phase, bool, error) {
	phases, err := readDiary(e.diaryPath())
	if err != nil || len(phases) == 0 {
		return nil, false, err
	}
	release, free, err := e.Hub.TryLock("green")
	if err == nil && !free {
		return phases, true, nil
	}
	if err == nil {
		err = release()
	}
	return append(phases, Phase{CausePromoter, phases[len(phases)-1].From}), false, err
}

// phase is the cause that an effect spends its time on.
func phase(s State, effect Effect) string {
	switch f := effect.(type) {
	case Judge:
		if s.goal == goalBase || s.goal == goalOwn {
			return CauseSearching
		}
		if f.Again {
			return CauseFlake
		}
	case Probe, Explain:
		return CauseSearching
	case Mend, Accept, Vet, Widen, Construct:
		return CauseRed
	case Recall, Promote, Hold, Wait, Rest:
	}
	return CauseRunning
}
