package gate

import "strings"

// messages finds hand-offs that git does not read as trailers, as when a line of
// prose stands among them: such a change would land and leave its task open.
func (l *landing) messages() error {
	for _, c := range l.commits {
		if !strings.Contains(c.Message, "\nTask: ") || !strings.Contains(c.Message, "\nClaim: ") || !strings.Contains(c.Message, "\nHandoff: ") {
			continue
		}
		if _, read := c.Trailers().Get("Task"); !read {
			l.find("trailers", ".", "has a hand-off in %q that git does not read as trailers: put Task:, Claim: and Handoff: into one last paragraph without any other line", c.Subject())
			return nil
		}
	}
	return nil
}
