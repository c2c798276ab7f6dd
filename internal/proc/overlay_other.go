//go:build unix && !linux

package proc

import "errors"

// ErrNoOverlay is returned where no file system can be laid over another.
var ErrNoOverlay = errors.New("overlayfs is not to be had")

// Overlay is of Linux alone.
func Overlay(string, string, string, string) error { return ErrNoOverlay }

// OverlayMany is of Linux alone.
func OverlayMany(string, []string, string, string) error { return ErrNoOverlay }

// TryOverlay says that there is none.
func TryOverlay(string) error { return ErrNoOverlay }

// OwnMounts has nothing to do: there are no mounts.
func OwnMounts([]string, []string) error { return nil }

// Mounted is false.
func Mounted(string) bool { return false }

// UnmountBelow has nothing to do.
func UnmountBelow(...string) error { return nil }
