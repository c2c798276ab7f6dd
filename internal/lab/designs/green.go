package designs

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"greenward/internal/git"
)

// watch takes a snapshot at every tick, as green does, and counts what it can vouch
// for. Every design is judged by it; where repair is set, it also finds culprits and
// takes them back.
func (w *world) watch(repair bool) {
	w.clock.start(w.seed, func(a *agent) error {
		for {
			if err := a.busy(w.p.Green); err != nil {
				return err
			}
			snapshot := len(w.line)
			at := w.tip
			live, err := w.broken(at, nil)
			if err != nil {
				return err
			}
			was := map[int]bug{}
			for _, id := range live {
				was[id] = w.bugs[id]
			}
			if err := a.busy(w.p.Check); err != nil {
				return err
			}
			if len(live) > 0 {
				if !repair {
					continue
				}
				if err := w.undo(a, live, snapshot); err != nil {
					return err
				}
			}
			if err := w.promote(at, was); err != nil {
				return err
			}
			w.gate.judged(false) // it passed, or was repaired
			w.vouch(snapshot)
		}
	})
}

// promote makes green the tree of a snapshot without the bugs that were found in it,
// and looks at every file of it whether it is one that passes.
func (w *world) promote(at git.Hash, found map[int]bug) error {
	w.Promotions++
	edits := map[string][][]byte{}
	for id, b := range found {
		lines, known := edits[b.path]
		if !known {
			text, err := w.repo.File(at, b.path)
			if err != nil {
				return err
			}
			lines = bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		}
		for i, l := range lines {
			if bytes.Equal(l, bugLine(id)) {
				lines[i] = fmt.Appendf(nil, "mended %d on green", id)
			}
		}
		edits[b.path] = lines
	}
	var list []git.Edit
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		e, err := w.edit(name, edits[name])
		if err != nil {
			return err
		}
		list = append(list, e)
	}
	tree, err := w.repo.EditTree(at, list)
	if err != nil {
		return err
	}
	bad, err := w.scan(tree)
	if err != nil {
		return err
	}
	w.paint(&w.greenRedFrom, &w.GreenRed, bad > 0)
	return nil
}

// scan counts the bugs in a tree by looking at all its files, whatever is known of
// them.
func (w *world) scan(tree git.Hash) (int, error) {
	bad := 0
	for i := range w.p.Files {
		e, err := w.repo.Lookup(tree, hot(i))
		if err != nil {
			return 0, err
		}
		n, known := w.scanned[e.Hash]
		if !known {
			text, err := w.repo.Blob(e.Hash)
			if err != nil {
				return 0, err
			}
			n = bytes.Count(text, []byte("\nbug "))
			w.scanned[e.Hash] = n // a content never changes
		}
		bad += n
	}
	return bad, nil
}

// paint keeps account of how long something was red, in hours.
func (w *world) paint(from *time.Duration, sum *float64, red bool) {
	switch {
	case red && *from < 0:
		*from = w.clock.now
	case !red && *from >= 0:
		*sum += (w.clock.now - *from).Hours()
		*from = -1
	}
}

// undo finds the culprits of the bugs of a snapshot of n landings, probing on all
// slots at once, and reverts them.
func (w *world) undo(a *agent, live []int, n int) error {
	n = max(2, n)
	rounds := math.Ceil(math.Log(float64(n)) / math.Log(float64(w.p.Slots+1))) // one bug
	rounds = max(rounds, math.Ceil(float64(len(live))*math.Log2(float64(n))/float64(w.p.Slots)))
	if err := a.busy(time.Duration(rounds) * w.p.Check); err != nil {
		return err
	}
	for _, id := range live {
		b, there := w.bugs[id]
		if !there || b.by.IsZero() {
			continue
		}
		ok, err := w.revert(id, b)
		if err != nil {
			return err
		}
		l := w.commits[b.by]
		l.undo = ok
		w.commits[b.by] = l
		if ok {
			w.Reverts++
			continue
		}
		if err := w.mends(a, id, w.queue(a)); err != nil { // the fixup agent
			return err
		}
	}
	return nil
}

// revert takes a culprit back by a merge of git's. It is not to be had where others
// built on it.
func (w *world) revert(id int, b bug) (bool, error) {
	if _, there := w.bugs[id]; !there {
		return true, nil
	}
	culprit, err := w.repo.Commit(b.by)
	if err != nil {
		return false, err
	}
	out, err := w.merge(git.MergeInput{Base: b.by, Ours: w.tip, Theirs: culprit.Parents[0]})
	if err != nil || len(out.Conflicts) > 0 {
		return false, err
	}
	head, err := w.commit(out.Tree, []git.Hash{w.tip}, "Revert "+b.by.Short())
	if err != nil {
		return false, err
	}
	return true, w.move(head, land{mend: true})
}

// vouch counts the landings that this promotion brings.
func (w *world) vouch(n int) {
	for _, h := range slices.Backward(w.line[:n]) {
		l := w.commits[h]
		if l.seen {
			break
		}
		l.seen = true
		w.commits[h] = l
	}
}
