package bot

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"greenward/internal/git"
)

// verdict is a check run's contents.
type verdict struct {
	entry, status, conclusion, title, summary string

	text  string   // the same for programs
	paths []string // to be annotated
	again bool     // it makes sense to ask once more
}

// final reports whether the outcome will not change by itself.
func (o Outcome) final() bool {
	return o.State == stateLanded || o.State == stateEjected || o.State == stateWithdrawn
}

func verdictOf(name string, p *pull, out Outcome) verdict {
	v := verdict{entry: git.EntryID(name, p.Entry), status: "completed", summary: describe(p, out), text: machine(name, p, out)}
	switch out.State {
	case stateLanded:
		v.conclusion, v.title = "success", "Landed as "+out.Landed.Short()
	case stateEjected:
		v.conclusion, v.title, v.paths, v.again = "failure", "Ejected: "+line(out.Reason, 100), out.Paths, true
	case stateWithdrawn:
		v.conclusion, v.title = "cancelled", "Withdrawn"
	case stateBuilding:
		v.status, v.title = "in_progress", "Its checks run"
	case stateBlocked:
		first, _, more := strings.Cut(out.Detail, "\n")
		v.status, v.title = "queued", "Waits: "+line(first, 150)
		if more {
			v.title += " …"
		}
	default:
		v.status, v.title = "queued", "Waiting to land"
	}
	return v
}

// machine is the verdict for programs: one JSON object in a fence.
func machine(name string, p *pull, out Outcome) string {
	next := map[string]string{
		stateLanded: "none", stateEjected: "push a mended head and have it approved", stateWithdrawn: "have it approved anew",
		stateBlocked: "what it waits for", stateWaiting: "wait", stateBuilding: "wait",
	}[out.State]
	v := struct {
		Entry  string   `json:"entry"`
		Head   git.Hash `json:"head"`
		State  string   `json:"state"`
		Landed git.Hash `json:"landed,omitempty"`
		Reason string   `json:"reason,omitempty"`
		With   string   `json:"with,omitempty"`
		Paths  []string `json:"paths"`
		Detail string   `json:"detail,omitempty"`
		Next   string   `json:"next"`
		Again  bool     `json:"fails_again_unless_head_changes"`
	}{
		git.EntryID(name, p.Entry), p.Entry, out.State, out.Landed, out.Reason, out.With, out.Paths[:min(len(out.Paths), 100)], cut(out.Detail, 2000), next,
		out.State == stateEjected && (out.Reason == "checks" || out.Reason == "unchanged" || out.Reason == "gate" || out.Reason == "policy" || out.Reason == "empty"),
	}
	if v.Paths == nil {
		v.Paths = []string{}
	}
	data, err := json.Marshal(v) // with < > & escaped: nothing in it can end the fence or open a tag
	if err != nil {
		return ""
	}
	return "```json\n" + strings.ReplaceAll(string(data), "`", "\\u0060") + "\n```"
}

// describe is the outcome in full, for the check run and the comment.
func describe(p *pull, out Outcome) string {
	var s strings.Builder
	switch out.State {
	case stateLanded:
		fmt.Fprintf(&s, "`%s` landed as %s.", p.Entry.Short(), out.Landed)
	case stateEjected:
		fmt.Fprintf(&s, "`%s` was ejected: %s. %s", p.Entry.Short(), code(out.Reason), remedy(out.Reason))
	case stateWithdrawn:
		s.WriteString("`" + p.Entry.Short() + "` was withdrawn. " + out.Detail)
		return s.String()
	case stateBlocked:
		fmt.Fprintf(&s, "`%s` is approved by %s, and waits before it may join the queue:\n", p.Entry.Short(), code(p.By.Login))
		for line := range strings.SplitSeq(out.Detail, "\n") {
			s.WriteString("\n- " + line)
		}
		return s.String()
	case stateBuilding:
		fmt.Fprintf(&s, "`%s` is being checked.", p.Entry.Short())
	default:
		fmt.Fprintf(&s, "`%s` waits in the queue, approved by %s.", p.Entry.Short(), code(p.By.Login))
	}
	if out.With != "" {
		s.WriteString("\n\nIt met " + code(out.With) + ".")
	}
	if len(out.Paths) > 0 {
		s.WriteString("\n\n" + fenced(strings.Join(out.Paths, "\n")))
	}
	if out.Detail != "" {
		s.WriteString("\n\n" + fenced(out.Detail))
	}
	return s.String()
}

// remedy is the next step after an ejection.
func remedy(reason string) string {
	switch reason {
	case "conflict":
		return "Bring it up to date with the branch, push, and have it approved again."
	case "unchanged":
		return "This very head failed before, so it is not checked again: push a mended one."
	case "budget":
		return "Changes of this kind failed too often lately; it can be asked for once more later."
	case "superseded", "empty":
		return "There is nothing left of it to land."
	}
	return "Mend it, push, and have it approved again."
}

func commentText(name string, p *pull, out Outcome) string {
	var parts []string
	if !p.Entry.IsZero() {
		parts = append(parts, describe(p, out))
	} else if p.Hold != "" {
		parts = append(parts, p.Hold)
	}
	if p.Trial != nil {
		parts = append(parts, p.Trial.describe())
	}
	if p.Note != "" {
		parts = append(parts, p.Note)
	}
	if len(parts) == 0 {
		parts = append(parts, fmt.Sprintf("`%s` is not approved.", p.Head.Short()))
	}
	if !p.Entry.IsZero() {
		parts = append(parts, "Entry `"+git.EntryID(name, p.Entry)+"`.")
	}
	return strings.Join(parts, "\n\n")
}

func (t *trial) describe() string {
	text := fmt.Sprintf("Try of `%s`, asked for by %s: ", t.Head.Short(), code(t.By.Login))
	switch t.last.State {
	case "passed":
		text += "every required check passed on the merge with `" + t.last.Onto.Short() + "`. Nothing was landed."
	case "running", "":
		return text + "its checks run."
	default:
		text += code(t.last.State) + "."
	}
	if t.last.Detail != "" {
		text += "\n\n" + fenced(t.last.Detail)
	}
	return text
}

// used says what a run has cost: in money, where the prices are known.
func used(p Progress) string {
	if p.USD == nil {
		return fmt.Sprintf(" %d tokens were used.", p.Tokens)
	}
	return fmt.Sprintf(" It has cost %.2f USD (%d tokens).", *p.USD, p.Tokens)
}

// progressText is the one comment of an issue with runs.
func progressText(i *issue, runs []string, states []Progress) string {
	var parts []string
	for k, run := range runs {
		p := states[k]
		line := fmt.Sprintf("Run %s: **%s**.", code(run), Clean(p.State))
		if p.Open > 0 {
			line += fmt.Sprintf(" %d tasks are open.", p.Open)
		}
		if n := p.Handoffs["done"]; n > 0 || len(p.Handoffs) > 0 {
			line += fmt.Sprintf(" Hand-offs: %d done, %d partial, %d blocked, %d failed.", n, p.Handoffs["partial"], p.Handoffs["blocked"], p.Handoffs["failed"])
		}
		if p.Tokens > 0 {
			line += used(p)
		}
		if p.Ended {
			if p.Green.IsZero() {
				line += " Green has not moved yet."
			} else {
				line += " Green stands at " + string(p.Green) + "."
			}
			if len(p.Left) > 0 {
				line += "\n\nLeft undone:\n\n" + fenced(strings.Join(p.Left, "\n"))
			}
		}
		parts = append(parts, line)
	}
	if i.Note != "" {
		parts = append(parts, i.Note)
	}
	return strings.Join(parts, "\n\n")
}

// progressGap is how often the comment of a run is edited while it goes on.
const progressGap = 30 * time.Second
