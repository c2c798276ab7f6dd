package config

import (
	"fmt"
	"slices"
	"strings"
)

// A Fault is one thing that is wrong in a policy.
type Fault struct {
	Line    int    // 1-based; 0: the file as a whole
	Key     string // as in queue.gate.max_file or checks[1].run; empty: the file as a whole
	Problem string // what is wrong
	Hint    string // the cure; may be empty
}

func (f Fault) String() string {
	var b strings.Builder
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Problem)
	if f.Hint != "" {
		b.WriteString(" (" + f.Hint + ")")
	}
	return b.String()
}

// An Error holds all faults of a policy, by line.
type Error struct {
	File   string // set by Load
	Faults []Fault
}

const faultsShown = 20

// Error has one line a fault.
func (e *Error) Error() string {
	var lines []string
	for i, f := range e.Faults {
		if i == faultsShown {
			lines = append(lines, fmt.Sprintf("and %d more", len(e.Faults)-i))
			break
		}
		lines = append(lines, e.place(f)+f.String())
	}
	return strings.Join(lines, "\n")
}

func (e *Error) place(f Fault) string {
	switch {
	case e.File != "" && f.Line > 0:
		return fmt.Sprintf("%s:%d: ", e.File, f.Line)
	case e.File != "":
		return e.File + ": "
	case f.Line > 0:
		return fmt.Sprintf("line %d: ", f.Line)
	}
	return ""
}

// A refusal is what a rule says about a value.
type refusal struct{ problem, hint string }

func (r *refusal) Error() string { return r.problem }

func refuse(hint, format string, args ...any) error {
	return &refusal{fmt.Sprintf(format, args...), hint}
}

// nearest says what a mistyped word was meant to be.
func nearest(word string, known []string) string {
	slices.Sort(known)
	best, least := "", len(word)/2+1
	for _, k := range known {
		if d := distance(strings.ToLower(word), k); d < least {
			best, least = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "known: " + strings.Join(known, ", ")
}

// distance counts the bytes to insert, delete, change or swap with a neighbour.
func distance(a, b string) int {
	if max(len(a), len(b)) > 64 {
		return 64
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
		for j := range rows[i] {
			if i == 0 {
				rows[i][j] = j
				continue
			}
			if j == 0 {
				continue
			}
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
