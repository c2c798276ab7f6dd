package wire

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Move moves one ref from a value to another, each 40 digits; Zero: it is not there.
type Move struct {
	Ref, Old, New string
	Raw           []byte // the commit New; nil: Zero
}

// moved begins the reason for which a ref that no longer was what a push expected
// stays; what it is follows.
const moved = "moved: it is "

// Moved is why a ref stays that is something else by now.
func Moved(is string) string { return moved + is }

// Is is what a ref is that stayed because of that.
func Is(reason string) (string, bool) {
	is, ok := strings.CutPrefix(reason, moved)
	return is, ok && len(is) == len(Zero) && strings.Trim(is, "0123456789abcdef") == ""
}

// Push is what git-receive-pack is sent: each ref moves by itself or stays.
func Push(moves []Move) ([]byte, error) {
	var out bytes.Buffer
	var commits [][]byte
	for i, m := range moves {
		line := m.Old + " " + m.New + " " + m.Ref
		if i == 0 {
			line += "\x00report-status object-format=sha1 agent=greenward"
		}
		packet(&out, line)
		if m.New != Zero {
			commits = append(commits, m.Raw)
		}
	}
	out.WriteString(flush)
	if len(commits) == 0 {
		return out.Bytes(), nil // who deletes sends no pack
	}
	pack, err := Commits(commits)
	if err != nil {
		return nil, err
	}
	out.Write(pack)
	return out.Bytes(), nil
}

// Report is what git-receive-pack answers: for each ref why it stays, or nothing.
func Report(order []Move, stays map[string]string, sideBand bool) []byte {
	var report, out bytes.Buffer
	packet(&report, "unpack ok\n")
	for _, m := range order {
		why, stayed := stays[m.Ref]
		if !stayed {
			packet(&report, "ok "+m.Ref+"\n")
			continue
		}
		packet(&report, "ng "+m.Ref+" "+why[:min(len(why), 500)]+"\n")
	}
	report.WriteString(flush)
	if !sideBand {
		return report.Bytes()
	}
	band(&out, report.Bytes())
	out.WriteString(flush)
	return out.Bytes()
}

// ReadReport reads the answer to Push: the reason why a ref stays, for each that
// does. It is of each of the moves, or ErrForeign.
func ReadReport(in io.Reader, order []Move) (map[string]string, error) {
	lines, err := (&reader{in: in}).section(MaxPack)
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 || strings.TrimSpace(lines[0]) != "unpack ok" {
		return nil, fmt.Errorf("it was not unpacked: %.200q: %w", lines, ErrForeign)
	}
	said, stays := map[string]bool{}, map[string]string{}
	for _, line := range lines[1:] {
		verdict, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		ref, why, _ := strings.Cut(rest, " ")
		switch said[ref] = true; verdict {
		case "ok":
		case "ng":
			stays[ref] = why
		default:
			return nil, fmt.Errorf("%.200q is no verdict: %w", line, ErrForeign)
		}
	}
	for _, m := range order {
		if !said[m.Ref] {
			return nil, fmt.Errorf("nothing was said of %s: %w", m.Ref, ErrForeign)
		}
	}
	return stays, nil
}
