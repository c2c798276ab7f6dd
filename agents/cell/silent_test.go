package cell

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bwrap is a bubblewrap that is a script, on a PATH of its own.
func bwrap(t *testing.T, script string) Options {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bwrap"), []byte("#!/bin/sh\ncd \"${0%/*}\"\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return Options{Host: host().With("PATH=" + dir + ":" + os.Getenv("PATH"))}
}

// A machine too busy to answer is not taken for one without a sandbox: nothing runs
// unconfined then, unless the policy lets it.
func TestSilentBubblewrapIsNotTakenForNone(t *testing.T) {
	t.Parallel()
	o := bwrap(t, "echo try >>tries\nexec sleep 600\n")
	o.Patience = 50 * time.Millisecond
	_, err := New(t.Context(), o)
	if !errors.Is(err, ErrNoSandbox) || !strings.Contains(err.Error(), "no answer in 3 tries, the last of 200ms") || !strings.Contains(err.Error(), "agents.sandbox: off") {
		t.Errorf("error %v", err)
	}
	o.Want = Off
	if cells, err := New(t.Context(), o); err != nil || cells.Sandboxed() {
		t.Errorf("off: %v, %v", cells, err)
	}
}

// One that answers at the second try is used.
func TestBubblewrapIsTriedAgain(t *testing.T) {
	t.Parallel()
	o := bwrap(t, "[ -e tried ] && exit 0\n: >tried\nexec sleep 600\n")
	o.Patience = 5 * time.Second
	if cells, err := New(t.Context(), o); err != nil || !cells.Sandboxed() {
		t.Errorf("%v, %v", cells, err)
	}
}

// One that fails without a word is named as such, and is none.
func TestBubblewrapThatFailsWithoutAWord(t *testing.T) {
	t.Parallel()
	cells, err := New(t.Context(), bwrap(t, "[ \"$1\" = --version ] || exit 7\n"))
	if err != nil || cells.Sandboxed() || !strings.Contains(cells.String(), "it says nothing (exit code 7)") {
		t.Errorf("%v, %v", cells, err)
	}
}
