package command

import (
	"fmt"
	"strings"
)

// HelpText lists what is understood, as Markdown. Every spelling stands in code, in
// a table row: nothing of it is a command for anybody who reads it back.
func HelpText(names ...string) string {
	what := map[Verb]string{
		Merge: "land the head that you see, or the commit that you name", Review: "half of an approval, with the next",
		Approve: "the other half", Unmerge: "take the approval back", Try: "run the checks on the merge, land nothing",
		Untry: "forget the try", Retry: "ask once more", Priority: "go before others", Delegate: "let the author, or somebody, approve this one",
		Undelegate: "end that", Hold: "land this not before it is released", Unhold: "release it", Freeze: "nothing lands here", Thaw: "end the freeze",
		Run: "start a run for this issue", Stop: "end it where it is", Pause: "its workers take on no more", Resume: "end a pause or a stop",
		Status: "say how things stand", Help: "this text", Ping: "say that I am here",
	}
	order := []Verb{
		Merge, Unmerge, Try, Untry, Retry, Priority, Delegate, Undelegate, Hold, Unhold, Freeze, Thaw, Review, Approve,
		Run, Stop, Pause, Resume, Status, Help, Ping,
	}
	by := map[Verb][]string{}
	for _, d := range dialects(names)[1:] {
		for _, s := range d.words {
			start := d.starts[0]
			by[s.verb] = append(by[s.verb], "`"+strings.TrimSpace(start+" "+s.word)+"`")
		}
	}
	for _, s := range runs() {
		by[s.verb] = append([]string{"`/greenward " + s.word + "`"}, by[s.verb]...)
	}
	var out strings.Builder
	out.WriteString("| to | write at the start of a line |\n|---|---|\n")
	for _, v := range order {
		if len(by[v]) > 0 {
			fmt.Fprintf(&out, "| %s | %s |\n", what[v], strings.Join(by[v][:min(len(by[v]), 6)], " "))
		}
	}
	return out.String()
}
