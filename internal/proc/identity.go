package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// markerKey is the variable that every command carries.
const markerKey = "GREENWARD_PROC"

// survives ends the marker of a command that outlives its greenward.
const survives = "-survive"

// Identity names one process among all that ever ran: on which host, under
// which number, started when. It may be stored and compared.
type Identity struct {
	Pid   int    `json:"pid"`
	Start string `json:"start"` // opaque; differs between two processes of one number
	Host  string `json:"host"`  // opaque; the machine and its process namespace
}

// Self returns the identity of this process.
func Self() (Identity, error) {
	host, err := hostID()
	if err != nil {
		return Identity{}, fmt.Errorf("identify this host: %w", err)
	}
	pid := os.Getpid()
	start, _ := startOf(pid)
	return Identity{Pid: pid, Start: start, Host: host}, nil
}

// Alive is false only when the process is provably dead: it was one of this
// host, and its number is free or was given to another. A process of another
// host counts as alive.
func (i Identity) Alive() bool {
	host, err := hostID()
	if err != nil || i.Host != host || i.Pid <= 0 {
		return true
	}
	if errors.Is(syscall.Kill(i.Pid, 0), syscall.ESRCH) {
		return false
	}
	start, known := startOf(i.Pid)
	if !known {
		return true
	}
	return start == i.Start
}

// marker returns the value of GREENWARD_PROC for a new command.
func (i Identity) marker(survive bool) string {
	n := token()
	if survive {
		n += survives
	}
	return fmt.Sprintf("%s:%d:%s:%s", i.Host, i.Pid, i.Start, n)
}

// parseMarker reads the value of GREENWARD_PROC back.
func parseMarker(value string) (owner Identity, survive, ok bool) {
	parts := strings.Split(value, ":")
	if len(parts) != 4 {
		return Identity{}, false, false
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil || pid <= 0 {
		return Identity{}, false, false
	}
	owner = Identity{Pid: pid, Start: parts[2], Host: parts[0]}
	return owner, strings.HasSuffix(parts[3], survives), true
}

// clean makes text fit into a marker.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == ':' || r == 0x7f {
			return '_'
		}
		return r
	}, text)
}
