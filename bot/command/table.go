package command

import "strings"

// kind is what a word of a spelling takes after itself.
type kind int

const (
	alone  kind = iota
	commit      // an optional commit id as the next word
	level       // a number after "="
	people      // logins after "=", separated by commas
	reason      // the rest of the line
	given       // workers=N budget=$N model=NAME
	rest        // whatever follows belongs to it and is not read
)

// spelling is one way to ask for something.
type spelling struct {
	word  string // "r+", "try cancel"; with level or people it ends in "="
	verb  Verb
	takes kind
	says  string // for Unserved: what to do instead
}

// dialect is a family of spellings that begin alike.
type dialect struct {
	name    string   // for the help
	starts  []string // the first word; "": the spelling itself is the whole beginning
	words   []spelling
	strict  bool // a line that begins so is always meant for us: an unknown word gets a hint
	several bool // more than one command may stand on a line
}

// dialects is the one table of all that is understood. names are the words that
// the App itself is called by.
func dialects(names []string) []dialect {
	own := []string{"/greenward", "@greenward"}
	for _, n := range names {
		if n = strings.ToLower(strings.TrimSpace(n)); n != "" {
			own = append(own, "@"+n, "@"+n+"[bot]")
		}
	}
	return []dialect{
		{name: "greenward", starts: own, words: append(runs(), bors()...), strict: true, several: true},
		{name: "greenward, in short", starts: []string{""}, words: short(), strict: true},
		{name: "bors, rust-bors, homu", starts: []string{"bors", "@bors", "@homu"}, words: bors(), several: true},
		{name: "Prow", starts: []string{""}, words: prow()},
		{name: "Mergify", starts: []string{"@mergifyio", "@mergify"}, words: mergify()},
		{name: "Trunk", starts: []string{"/trunk"}, words: trunk()},
		{name: "Zuul", starts: []string{""}, words: []spelling{{word: "recheck", verb: Retry}}},
	}
}

func runs() []spelling {
	return []spelling{
		{word: "run", verb: Run, takes: given},
		{word: "stop", verb: Stop, takes: reason},
		{word: "pause", verb: Pause, takes: reason},
		{word: "resume", verb: Resume},
		{word: "status", verb: Status},
		{word: "hold", verb: Hold, takes: reason},
		{word: "unhold", verb: Unhold},
		{word: "freeze", verb: Freeze, takes: reason},
		{word: "thaw", verb: Thaw},
	}
}

func short() []spelling {
	return []spelling{
		{word: "/merge cancel", verb: Unmerge},
		{word: "/merge-", verb: Unmerge},
		{word: "/merge", verb: Merge, takes: commit},
	}
}

func bors() []spelling {
	const batches = "Changes land as fast as they merge, so there are no rollups and no single batches."
	return []spelling{
		{word: "r+", verb: Merge, takes: commit},
		{word: "merge", verb: Merge, takes: commit},
		{word: "r=", verb: Merge, takes: people},
		{word: "merge=", verb: Merge, takes: people},
		{word: "r-", verb: Unmerge},
		{word: "merge-", verb: Unmerge},
		{word: "cancel", verb: Unmerge},
		{word: "yield", verb: Unmerge},
		{word: "try cancel", verb: Untry},
		{word: "try-", verb: Untry},
		{word: "try", verb: Try},
		{word: "retry", verb: Retry},
		{word: "p=", verb: Priority, takes: level},
		{word: "priority=", verb: Priority, takes: level},
		{word: "delegate+", verb: Delegate},
		{word: "d+", verb: Delegate},
		{word: "delegate=", verb: Delegate, takes: people},
		{word: "d=", verb: Delegate, takes: people},
		{word: "delegate-", verb: Undelegate},
		{word: "d-", verb: Undelegate},
		{word: "treeclosed=", verb: Freeze, takes: reason},
		{word: "treeclosed-", verb: Thaw},
		{word: "treeopen", verb: Thaw},
		{word: "info", verb: Status},
		{word: "ping", verb: Ping},
		{word: "help", verb: Help},
		{word: "rollup=", verb: Unserved, says: batches},
		{word: "rollup-", verb: Unserved, says: batches},
		{word: "rollup", verb: Unserved, says: batches},
		{word: "single on", verb: Unserved, says: batches},
		{word: "single off", verb: Unserved, says: batches},
		{word: "squash", verb: Unserved, takes: rest, says: "How changes land is set by queue.method in the policy."},
		{word: "force", verb: Unserved, says: "Nothing lands past its checks."},
		{word: "clean", verb: Unserved, says: "Verdicts belong to exact trees, so there is nothing to clean."},
	}
}

// prow has what it shares with others of its kind. What another bot answers, such
// as /assign, is no command here.
func prow() []spelling {
	return []spelling{
		{word: "/lgtm cancel", verb: Unmerge},
		{word: "/remove-lgtm", verb: Unmerge},
		{word: "/lgtm", verb: Review},
		{word: "/approve cancel", verb: Unmerge},
		{word: "/remove-approve", verb: Unmerge},
		{word: "/approve no-issue", verb: Approve},
		{word: "/approve", verb: Approve},
		{word: "/hold cancel", verb: Unhold},
		{word: "/remove-hold", verb: Unhold},
		{word: "/unhold", verb: Unhold},
		{word: "/hold", verb: Hold, takes: reason},
		{word: "/retest-required", verb: Retry},
		{word: "/retest", verb: Retry},
		{word: "/test all", verb: Retry},
	}
}

func mergify() []spelling {
	return []spelling{
		{word: "queue", verb: Merge, takes: rest},
		{word: "requeue", verb: Retry},
		{word: "dequeue", verb: Unmerge},
		{word: "unqueue", verb: Unmerge},
		{word: "refresh", verb: Status},
		{word: "rebase", verb: Unserved, says: "Changes are merged or rebased when they land; nothing is pushed to your branch."},
		{word: "update", verb: Unserved, says: "Changes are merged or rebased when they land; nothing is pushed to your branch."},
	}
}

func trunk() []spelling {
	return []spelling{
		{word: "merge", verb: Merge, takes: rest},
		{word: "cancel", verb: Unmerge},
	}
}
