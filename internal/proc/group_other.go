//go:build unix && !linux

package proc

import "os/exec"

// Group is of Linux alone.
type Group struct{}

// NewGroup is ErrNoGroups here.
func NewGroup(Limits) (*Group, error) { return nil, ErrNoGroups }

// Holds is nothing.
func (g *Group) Holds() []string { return nil }

// Kills is none.
func (g *Group) Kills() int64 { return 0 }

// Members is nobody.
func (g *Group) Members() []int { return nil }

// Close does nothing.
func (g *Group) Close() error { return nil }

func (g *Group) start(cmd *exec.Cmd) error { return cmd.Start() }
