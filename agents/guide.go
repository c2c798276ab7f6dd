package agents

import (
	"fmt"
	"strings"

	"greenward/internal/git"
)

// GuideIndex is the index of the field guide: what agents found out about this
// project and the next one should not have to. Agents keep it by ordinary tasks;
// everyone who begins reads its index.
const GuideIndex = "docs/field-guide/INDEX.md"

// maxGuide is the index's budget in lines: whatever is added has to push out
// something that is worth less.
const maxGuide = 80

// Guide is the index at a commit, cut to its budget; empty: there is none.
func Guide(repo *git.Repo, at git.Hash) string {
	text, err := repo.File(at, GuideIndex)
	if err != nil {
		return "" // it is help and decides nothing
	}
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(text), "\ufffd")), "\n")
	over := len(lines) - maxGuide
	for i, line := range lines {
		lines[i] = cut(line, 300)
	}
	if over > 0 {
		lines = append(lines[:maxGuide], fmt.Sprintf("(%d more lines are over its budget of %d and are not shown: it wants to be shortened)", over, maxGuide))
	}
	return strings.Join(lines, "\n")
}
