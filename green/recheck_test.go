package green_test

import (
	"path/filepath"
	"strings"
	"testing"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/verify"
)

// TestX8OfflineCopyVerifiesUntilOneByteIsFlipped copies a hub whose green holds a
// culprit, a repair and real evidence, verifies it there, and then changes one
// thing of the copy at a time.
func TestX8OfflineCopyVerifiesUntilOneByteIsFlipped(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.commit("policy", map[string]string{".greenward.yml": "checks:\n  - {name: sh, run: \"test ! -e bad\"}\n"})
	hub := p.engine.Hub
	ledger, err := verify.OpenLedger(hub.Repo, []string{p.engine.Signer.Public()})
	if err != nil {
		t.Fatal(err)
	}
	p.engine.Judge = &verify.Runner{
		Repo: hub.Repo, Ledger: ledger, State: hub.State(), Signer: p.engine.Signer, Now: p.now, Host: hub.Host(), Slots: 2,
	}
	for _, files := range []map[string]string{{"a": "1\n"}, {"bad": "x\n"}, {"b": "1\n"}} {
		p.commit("more", files)
		if r, err := p.engine.Cycle(t.Context()); err != nil || !r.Promoted {
			t.Fatalf("got %+v, %v", r, err)
		}
	}
	wanted := false
	check := func(name string, want bool, change func(dir string)) {
		dir := filepath.Join(t.TempDir(), "copy.git")
		gittest.Git(t, p.dir, "clone", "-q", "--mirror", p.dir, dir)
		change(dir)
		before := gittest.Git(t, dir, "count-objects", "-v")
		repo, err := git.Open(t.Context(), dir, gittest.Host(t))
		if err != nil {
			t.Fatal(err)
		}
		v, err := green.Verify(t.Context(), green.VerifyInput{Repo: repo, Records: wanted})
		if err != nil || v.Valid != want {
			t.Errorf("%s: got %+v, %v, want valid %v", name, v, err, want)
		}
		if after := gittest.Git(t, dir, "count-objects", "-v"); after != before {
			t.Errorf("%s: verifying wrote objects", name)
		}
	}
	check("the copy", true, func(string) {})
	// One more that the hub's own key signed, and that its log knows nothing of: nothing
	// on record speaks for it, and that is said.
	dir := filepath.Join(t.TempDir(), "more.git")
	gittest.Git(t, p.dir, "clone", "-q", "--mirror", p.dir, dir)
	repo, err := git.Open(t.Context(), dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	for want, more := range map[string]bool{green.EvidenceChecked: false, green.EvidenceMissing: true} {
		at := p.tip("refs/heads/green")
		if more {
			last, err := repo.Commit(at)
			if err != nil {
				t.Fatal(err)
			}
			if at, err = repo.WriteCommit(git.CommitInput{
				Tree: last.Tree, Parents: []git.Hash{last.Hash, last.Parents[1]}, Author: last.Author, Committer: last.Committer, Message: last.Message, Signer: p.engine.Signer,
			}); err != nil {
				t.Fatal(err)
			}
		}
		v, err := green.Verify(t.Context(), green.VerifyInput{Repo: repo, Commit: at})
		if err != nil || v.Evidence != want {
			t.Errorf("got %+v, %v, want evidence %s", v, err, want)
		}
	}
	notes := strings.Fields(p.git("ls-tree", "-r", "--name-only", "refs/notes/greenward"))
	if len(notes) < 3 {
		t.Fatalf("the ledger has %d notes", len(notes))
	}
	edit := func(what func(text string) string) func(dir string) {
		return func(dir string) {
			files := map[string]string{}
			for _, name := range notes {
				files[name] = what(gittest.Git(t, dir, "show", "refs/notes/greenward:"+name) + "\n")
			}
			gittest.Git(t, dir, "branch", "notes", "refs/notes/greenward")
			gittest.Git(t, dir, "update-ref", "refs/notes/greenward", gittest.Commit(t, dir, "notes", "edit", files))
		}
	}
	check("a verdict flipped", false, edit(func(s string) string { return strings.ReplaceAll(s, `"verdict":"passed"`, `"verdict":"failed"`) }))
	check("a verdict invented", false, edit(func(s string) string { return strings.ReplaceAll(s, `"started":"2026`, `"started":"2025`) }))
	check("the ledger emptied", false, edit(func(string) string { return "\n" }))
	check("main rewound", false, func(dir string) { gittest.Git(t, dir, "update-ref", "refs/heads/main", "refs/heads/main~2") })
	check("green moved by hand", false, func(dir string) { gittest.Git(t, dir, "update-ref", "refs/heads/green", "refs/heads/main") })
	check("green moved back", true, func(dir string) { gittest.Git(t, dir, "update-ref", "refs/heads/green", "refs/heads/green~1") })
	// A hub or a mirror has the evidence; without it a claim is only a claim.
	wanted = true
	without := func(refs ...string) func(dir string) {
		return func(dir string) {
			for _, ref := range refs {
				gittest.Git(t, dir, "update-ref", "-d", ref)
			}
		}
	}
	check("the mirror", true, func(string) {})
	check("no evidence", false, without("refs/notes/greenward"))
	check("no log", false, without("refs/greenward/log/green"))
	check("neither", false, without("refs/notes/greenward", "refs/greenward/log/green"))
	wanted = false
	check("a plain clone", true, without("refs/notes/greenward", "refs/greenward/log/green"))
}
