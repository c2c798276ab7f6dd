package queue

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"greenward/internal/journal"
)

// TestInvariantsOnRealGit does random things to a hub (changes on stale bases,
// branches that move, go or come again, pushes to main, landers that die at a
// random moment) and holds after every step: I1 main only moves forward; I2
// every landed tree is what git makes of its parent and its change; I3 only
// heads that were submitted land; I4 every entry is in exactly one state, and
// none lands twice.
func TestInvariantsOnRealGit(t *testing.T) {
	t.Parallel()
	checks := 0
	rapid.Check(t, func(rt *rapid.T) {
		if checks++; checks > 12 && !rapidWide() {
			return // each takes a second; -rapid.checks over 60 runs them all
		}
		method := rapid.SampledFrom([]string{"rebase", "squash", "merge"}).Draw(rt, "method")
		files := map[string]string{".greenward.yml": "queue: {method: " + method + "}\n"}
		for _, name := range modelFiles() {
			files[name] = "1\n2\n3\n4\n5\n"
		}
		m := &gitModel{world: newWorld(t, files), rt: rt, submitted: map[string]string{}}
		m.main = m.git("rev-parse", "main")
		for i := range rapid.IntRange(2, 9).Draw(rt, "steps") {
			m.step(i)
			m.hold()
		}
		m.land()
		m.hold()
		m.end()
	})
}

func modelFiles() []string { return []string{"a", "b", "c/d"} }

type gitModel struct {
	*world
	rt        *rapid.T
	main      string
	submitted map[string]string // entry to head
}

func (m *gitModel) step(i int) {
	name := rapid.SampledFrom([]string{"x", "y", "z", "w"}).Draw(m.rt, "name")
	switch rapid.SampledFrom([]string{"submit", "submit", "submit", "push", "delete", "again", "land", "die", "die"}).Draw(m.rt, "step") {
	case "submit":
		history := strings.Fields(m.git("rev-list", "--first-parent", "main"))
		from := rapid.SampledFrom(history).Draw(m.rt, "fork")
		head := string(m.change(from, fmt.Sprint("change ", i), m.edit(from, i)))
		if rapid.Bool().Draw(m.rt, "two") {
			head = string(m.change(head, fmt.Sprint("change ", i, " again"), m.edit(head, i+100)))
		}
		m.put(name, head)
	case "push":
		m.git("update-ref", "refs/heads/main", string(m.change("main", fmt.Sprint("by hand ", i), m.edit("main", i))))
	case "delete":
		if m.git("for-each-ref", "refs/heads/queue/"+name) != "" {
			m.git("update-ref", "-d", "refs/heads/queue/"+name)
		}
	case "again":
		for entry, head := range m.submitted {
			if n, _, _ := cutEntry(entry); n == name {
				m.put(name, head)
				break
			}
		}
	case "land":
		m.land()
	case "die":
		m.runUntil(rapid.IntRange(1, 14).Draw(m.rt, "label"))
	}
}

func (m *gitModel) put(name, head string) {
	m.git("update-ref", "refs/heads/queue/"+name, head)
	m.submitted[name+"@"+head[:12]] = head
}

// edit changes one line of one file as it is at a commit.
func (m *gitModel) edit(at string, i int) map[string]string {
	name := rapid.SampledFrom(modelFiles()).Draw(m.rt, "file")
	lines := strings.Split(m.git("show", at+":"+name), "\n")
	lines[rapid.IntRange(0, 4).Draw(m.rt, "line")] = fmt.Sprint("by ", i)
	return map[string]string{name: strings.Join(lines, "\n") + "\n"}
}

// hold checks what must be true at any moment, even after a death.
func (m *gitModel) hold() {
	main := m.git("rev-parse", "main")
	if base := m.git("merge-base", m.main, main); base != m.main {
		m.rt.Fatalf("I1: main went from %s to %s", m.main, main)
	}
	m.main = main
	seen := map[string]bool{}
	for entry := range strings.FieldsSeq(m.git("log", "--first-parent", "--format=%(trailers:key=Change,valueonly)", "main")) {
		if seen[entry] {
			m.rt.Fatalf("I4: %s landed twice", entry)
		}
		if m.submitted[entry] == "" {
			m.rt.Fatalf("I3: %s landed and was not submitted", entry)
		}
		seen[entry] = true
	}
}

// end checks what must be true when a landing has ended.
func (m *gitModel) end() {
	m.wantNoQueue()
	log, err := journal.LoadQueue(m.hub.Repo)
	if err != nil {
		m.rt.Fatal(err)
	}
	changes := m.git("log", "--first-parent", "--format=%(trailers:key=Change,valueonly)", "main")
	for entry, head := range m.submitted {
		d, known := log.Find(entry)
		landed := strings.Contains(changes, entry)
		switch {
		case !known && landed, known && landed != (d.State == journal.Landed):
			m.rt.Fatalf("I4: %s is %q in the log; on main: %t", entry, d.State, landed)
		case known && d.State == journal.Ejected && m.git("rev-parse", "refs/greenward/ejected/"+entry) != head:
			m.rt.Fatalf("the head of %s is lost", entry)
		}
	}
	report, err := Audit(m.Context(), m.hub, "", "")
	if err != nil || len(report.Mismatches) > 0 {
		m.rt.Fatalf("I2: %+v, %v", report, err)
	}
	if m.Failed() {
		m.rt.Fatal("see above")
	}
}

// rapidWide reports whether more random runs were asked for than a plain run makes.
func rapidWide() bool {
	n, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	return err == nil && n > 60
}
