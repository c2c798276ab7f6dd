package main

import (
	"errors"
	"io"
	"slices"
	"syscall"
)

// errUnheard ends a command whose results nobody reads any more.
var errUnheard = errors.New("nobody reads on")

// mouth is standard output: when its reader has gone, that is told.
type mouth struct {
	to   io.Writer
	gone func()
}

func (m *mouth) Write(data []byte) (int, error) {
	n, err := m.to.Write(data)
	if errors.Is(err, syscall.EPIPE) {
		m.gone()
	}
	return n, err
}

// mute ends the command at work, unless it has more to do than to tell.
func (a *app) mute() {
	if a.listener != nil {
		a.listener(errUnheard)
	}
}

// works reports whether a command lands, judges or has agents at work: that goes on
// when nobody reads what it prints.
func (c command) works() bool {
	return slices.Contains([]string{"run", "work", "serve", "land", "green snapshot"}, c.name)
}
