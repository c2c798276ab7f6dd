package proc

import (
	"os"
	"strings"
)

// hostID names the machine and the process namespace, as two containers of one
// name count their processes apart.
func hostID() (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", err
	}
	machine := ""
	if data, err := os.ReadFile("/etc/machine-id"); err == nil { // not every machine has one
		machine = strings.TrimSpace(string(data))
		machine = machine[:min(8, len(machine))]
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		space = "" // a kernel without namespaces has one
	}
	space = strings.Trim(strings.TrimPrefix(space, "pid:"), "[]")
	return clean(name + "/" + machine + "/" + space), nil
}

// startOf tells when pid was started: in which boot, and at which tick of it.
// Unknown: it can't be told. A process that only waits to be reaped is dead and
// has a start that no identity has.
func startOf(pid int) (start string, known bool) {
	s, ok := readStat(pid)
	if !ok {
		return "", false
	}
	if s.dead() {
		return "dead", true
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return s.start, true
	}
	return string(boot[:min(8, len(boot))]) + "." + s.start, true
}
