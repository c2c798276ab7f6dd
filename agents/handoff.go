package agents

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"greenward/internal/git"
)

// Outcome is how a task ended, as its hand-off says.
type Outcome string

// Outcomes of a hand-off.
const (
	Done    Outcome = "done"
	Partial Outcome = "partial"
	Blocked Outcome = "blocked"
	Failed  Outcome = "failed"
)

// Trailer keys of hand-offs and planners.
const (
	keyTask    = "Task"
	keyClaim   = "Claim"
	keyHandoff = "Handoff"
	keyAgent   = "Agent"
	keyModel   = "Model"
	keyFlag    = "Handoff-Flag"
	keyCost    = "Handoff-Cost"
	keyPlanner = "Planner"
	keySeen    = "Seen"
	keySpawned = "Spawned"
)

const (
	maxTrailer = 400      // bytes of one trailer value; longer text goes into the body
	maxRepeats = 20       // trailers of one kind; the rest goes into the body
	maxSubject = 100      // bytes
	maxBody    = 16 << 10 // bytes
)

// Handoff is what ends a task: the trailers of the commit that removes its file.
type Handoff struct {
	Task       string
	Claim      string
	Outcome    Outcome
	Notes      []string
	Concerns   []string
	Deviations []string
	Findings   []string
	Feedback   []string
	Checks     []string // "<command> passed" or "<command> failed", measured by the harness
	Flags      []string // what the harness saw in the change, or that the report claims without proof
	Cost       string   // diff, replies, tokens and time, as the harness counted them
	Agent      string
	Model      string
}

type handoffList struct {
	key    string
	values *[]string
}

// lists is the five kinds of text and the checks, with their keys.
func lists(h *Handoff) []handoffList {
	return []handoffList{
		{"Handoff-Note", &h.Notes},
		{"Handoff-Concern", &h.Concerns},
		{"Handoff-Deviation", &h.Deviations},
		{"Handoff-Finding", &h.Findings},
		{"Handoff-Feedback", &h.Feedback},
		{"Handoff-Check", &h.Checks},
		{keyFlag, &h.Flags},
	}
}

// Message composes the commit message of the hand-off. subject and body are
// foreign text: they are cut, collapsed and indented, so that nothing in them can
// be read as a trailer or hide one. Values that do not fit one short line move
// into the body, whole, and leave their beginning in the trailer.
func (h Handoff) Message(subject, body string) (git.Message, error) {
	if err := h.check(); err != nil {
		return git.Message{}, err
	}
	m := git.Message{Subject: subjectLine(subject, "hand off "+h.Task)}
	sections := []string{git.Quote(body)}
	add := func(key, value string) {
		if value != "" {
			m.Trailers = m.Trailers.With(key, value)
		}
	}
	add(keyTask, h.Task)
	add(keyClaim, h.Claim)
	add(keyHandoff, string(h.Outcome))
	for _, list := range lists(&h) {
		short, long := trailerValues(*list.values)
		for _, value := range short {
			add(list.key, value)
		}
		if long != "" {
			sections = append(sections, "  "+list.key+", in full\n\n"+long)
		}
	}
	add(keyCost, cut(git.OneLine(h.Cost), maxTrailer))
	add(keyAgent, cut(git.OneLine(h.Agent), maxTrailer))
	add(keyModel, cut(git.OneLine(h.Model), maxTrailer))
	sections = slices.DeleteFunc(sections, func(s string) bool { return s == "" })
	m.Body = strings.TrimRightFunc(cut(strings.Join(sections, "\n\n"), maxBody), unicode.IsSpace)
	if err := m.Check(); err != nil {
		return git.Message{}, fmt.Errorf("compose the hand-off of %s: %w", h.Task, err)
	}
	return m, nil
}

func (h Handoff) check() error {
	if err := CheckID(h.Task); err != nil {
		return fmt.Errorf("compose a hand-off: %w", err)
	}
	if !isClaimID(h.Claim) {
		return fmt.Errorf("compose the hand-off of %s: claim %q is not 12 hexadecimal digits", h.Task, h.Claim)
	}
	if !h.Outcome.valid() {
		return fmt.Errorf("compose the hand-off of %s: outcome %q is none of done, partial, blocked, failed", h.Task, h.Outcome)
	}
	return nil
}

func (o Outcome) valid() bool { return o == Done || o == Partial || o == Blocked || o == Failed }

func isClaimID(s string) bool {
	return len(s) == 12 && strings.Trim(s, "0123456789abcdef") == ""
}

// trailerValues splits foreign texts into one-line values and what did not fit.
func trailerValues(texts []string) (values []string, rest string) {
	var long []string
	for _, text := range texts {
		line := git.OneLine(text)
		if line == "" {
			continue
		}
		if len(line) > maxTrailer || len(values) >= maxRepeats {
			long = append(long, git.Quote(text))
		}
		if len(values) < maxRepeats {
			values = append(values, cut(line, maxTrailer))
		}
	}
	return values, strings.Join(slices.DeleteFunc(long, func(s string) bool { return s == "" }), "\n\n")
}

// subjectLine is the first line of foreign text as a subject that no tool takes
// for anything else.
func subjectLine(text, fallback string) string {
	first, _, _ := strings.Cut(strings.TrimLeft(text, " \t\r\n"), "\n")
	line := strings.TrimLeft(git.OneLine(first), "#-: ")
	return cut(cutDefault(line, fallback), maxSubject)
}

func cutDefault(s, fallback string) string {
	if s == "" {
		return git.OneLine(fallback)
	}
	return s
}

// cut shortens s to at most n bytes on a rune boundary and shows that it did.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[:n-len("…")]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return strings.TrimRight(s, " \n\t") + "…"
}

// ErrNoHandoff says that a commit carries no hand-off.
var ErrNoHandoff = errors.New("no hand-off")

// ParseHandoff reads a hand-off back from the trailers of a commit. It refuses a
// second Task, Claim or Handoff: such a block was not written by the harness.
func ParseHandoff(t git.Trailers) (Handoff, error) {
	if _, ok := t.Get(keyHandoff); !ok {
		return Handoff{}, ErrNoHandoff
	}
	var h Handoff
	for _, one := range []struct {
		key  string
		into *string
	}{{keyTask, &h.Task}, {keyClaim, &h.Claim}, {keyHandoff, (*string)(&h.Outcome)}, {keyCost, &h.Cost}, {keyAgent, &h.Agent}, {keyModel, &h.Model}} {
		values := t.All(one.key)
		if len(values) > 1 {
			return Handoff{}, fmt.Errorf("read hand-off: trailer %s stands %d times", one.key, len(values))
		}
		if len(values) == 1 {
			*one.into = values[0]
		}
	}
	if err := h.check(); err != nil {
		return Handoff{}, fmt.Errorf("read hand-off: %w", err)
	}
	for _, list := range lists(&h) {
		*list.values = t.All(list.key)
	}
	return h, nil
}

// plainMessage is the message of a model's own commit without anything that
// could be read as a trailer.
func plainMessage(raw, fallback string) (git.Message, error) {
	subject, body, _ := strings.Cut(strings.Trim(raw, "\n"), "\n")
	m := git.Message{Subject: subjectLine(subject, fallback), Body: cut(git.Quote(body), maxBody)}
	m.Body = strings.TrimRightFunc(m.Body, unicode.IsSpace)
	return m, m.Check()
}

// RunBy is the run whose goal, plan or hand-off a commit with these trailers is; empty:
// of none.
func RunBy(t git.Trailers) string {
	for _, key := range []string{keyTask, keyPlanner, "Run"} {
		if id, ok := t.Get(key); ok && CheckID(id) == nil {
			return RunOf(id)
		}
	}
	return ""
}
