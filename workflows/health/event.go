package health

import (
	"time"

	"greenward/internal/git"
)

// Past is what happened in the newest stretch of a repository, oldest first.
type Past struct {
	Landings []Landing
	Refusals []Refusal
	Colours  []Colour
	Lines    map[string]int // length of the files that landings touched, as they are now
}

// Landing is one commit of main's first-parent line.
type Landing struct {
	Commit   git.Hash
	At       time.Time
	Task     string // that it ended; empty: none
	Files    []File
	Behind   int  // commits that main had gained since its author looked
	Restores bool // it says itself that it takes something back
}

// File is one file that a landing changed. A zero blob is a file that is not there.
type File struct {
	Path     string
	Old, New git.Hash
}

// Refusal is a change that the queue did not take.
type Refusal struct {
	At     time.Time
	Task   string // it was to end; empty: none
	Reason string // as the queue's log says
	Rule   string // of the gate
	Paths  []string
}

// Colour is what a snapshot was found to be.
type Colour struct {
	At  time.Time
	Red bool // it failed, and green could not be made of it
}
