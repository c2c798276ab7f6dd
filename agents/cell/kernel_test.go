package cell

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"greenward/internal/proc"
)

const playKey = "CELL_TEST_PLAY"

// keyrings asks the kernel for the keyring of this session.
func keyrings() string {
	call := map[string]uintptr{"amd64": 250, "arm64": 219}[runtime.GOARCH]
	if call == 0 {
		return "unknown"
	}
	const id, session = 0, -3
	at := session
	if _, _, errno := syscall.Syscall6(call, id, uintptr(at), 1, 0, 0, 0); errno != 0 {
		return errno.Error()
	}
	return "there"
}

// TestPlay is what tests run in a cell.
func TestPlay(t *testing.T) {
	if os.Getenv(playKey) == "" {
		t.Skip("NOT RUN: it is no test by itself; TestA55NoKeyringIsReached starts it in a cell")
	}
	fmt.Println("keyrings:", keyrings())
}

// TestA55NoKeyringIsReached: no namespace parts the keyring of the session in which
// greenward was started; a cell has none.
func TestA55NoKeyringIsReached(t *testing.T) {
	t.Parallel()
	if is := keyrings(); is != "there" {
		t.Skipf("NOT RUN: this kernel has no keyrings: %s", is)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := sandboxed(t, Limits{}, func(p *Place) { p.Read = append(p.Read, exe) })
	out, result := r.sh(playKey + "=1 " + exe + " -test.run '^TestPlay$'")
	if !result.OK() || !strings.Contains(out, "keyrings: "+syscall.ENOSYS.Error()) {
		t.Errorf("%s: %s", result, out)
	}
}

// A14: who could be root of users of its own could mount the control group that it is
// in, and lift its bounds.
func TestA14BoundsAreNotLiftedFromInside(t *testing.T) {
	t.Parallel()
	r := sandboxed(t, Limits{Limits: proc.Limits{Memory: 64 << 20, Processes: 40}}, nil)
	if !r.cell.cells.closed {
		t.Skipf("NOT RUN: this bubblewrap lets commands make users of their own, and says so: %s", r.cell.cells)
	}
	r.wants("unshare -U true 2>/dev/null || echo no", "no")
	r.wants("unshare -Ur true 2>/dev/null || echo no", "no")
	r.wants("unshare -C true 2>/dev/null || echo no", "no")
	r.wants("mkdir -p /tmp/g; for kind in cgroup2 'cgroup -o memory' 'cgroup -o pids'; do mount -t $kind x /tmp/g 2>/dev/null && ls /tmp/g; done; echo none", "none")
}

// One that is too old for that is used, and what it lacks is said.
func TestAnOlderBubblewrapIsNamed(t *testing.T) {
	t.Parallel()
	cells, err := New(t.Context(), bwrap(t, `case "$*" in *--disable-userns*) echo "bwrap: Unknown option --disable-userns" >&2; exit 1 ;; esac
[ "$1" = --version ] && echo bubblewrap 0.6.0
exit 0
`))
	if err != nil || !cells.Sandboxed() || !strings.Contains(cells.String(), "bubblewrap 0.6.0") || !strings.Contains(cells.String(), "lift their bounds") {
		t.Errorf("%v, %v", cells, err)
	}
}
