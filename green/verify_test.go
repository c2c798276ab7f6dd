package green_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/gittest"
)

func TestVerifyWithSSHKeygen(t *testing.T) {
	t.Parallel()
	sshKeygen(t)
	p := newPlace(t)
	p.cycle()
	p.breaks("bad", "test")
	p.good("c")
	p.cycle()
	signers, err := green.Signers(p.engine.Hub.Repo, p.tip("refs/heads/green"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "allowed_signers")
	write(t, file, signers)
	for _, rev := range []string{"green", "green~1"} {
		p.git("-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile="+file, "verify-commit", rev)
	}
	v, err := green.Verify(t.Context(), green.VerifyInput{Repo: p.engine.Hub.Repo, Signers: []byte(signers)})
	if err != nil || !v.Valid || v.Trust != green.TrustFile {
		t.Errorf("got %+v, %v", v, err)
	}
}

// TestVerifyFindsEveryLie rewrites one thing of the newest promotion at a time.
func TestVerifyFindsEveryLie(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.breaks("bad", "test")
	p.good("c")
	p.cycle()
	hub := p.engine.Hub
	honest, err := hub.Commit(p.tip("refs/heads/green"))
	if err != nil {
		t.Fatal(err)
	}
	main := p.tip("refs/heads/main")
	other, err := git.LoadKey(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	mainTree, err := hub.TreeOf(main)
	if err != nil {
		t.Fatal(err)
	}
	lies := map[string]func(in *git.CommitInput){
		"unsigned":        func(in *git.CommitInput) { in.Signer = nil },
		"another key":     func(in *git.CommitInput) { in.Signer = other },
		"snapshot second": func(in *git.CommitInput) { in.Parents = []git.Hash{honest.Parents[0], main} },
		"swapped parents": func(in *git.CommitInput) { slices.Reverse(in.Parents) },
		"says none": func(in *git.CommitInput) {
			in.Message = strings.Replace(in.Message, "Repair: revert", "Repair: none", 1)
		},
		"says rollback": func(in *git.CommitInput) {
			in.Message = strings.Replace(in.Message, "Repair: revert", "Repair: rollback", 1)
		},
		"failed check": func(in *git.CommitInput) { in.Message = strings.Replace(in.Message, "test passed", "test failed", 1) },
		"missing check": func(in *git.CommitInput) {
			in.Message = strings.Replace(in.Message, "Check: test passed runs=1\n", "", 1)
		},
		"no run": func(in *git.CommitInput) {
			in.Message = strings.Replace(in.Message, "test passed runs=1", "test passed runs=0", 1)
		},
		"foreign snapshot": func(in *git.CommitInput) {
			in.Message = strings.Replace(in.Message, string(main), string(honest.Hash), 1)
		},
		"other policy": func(in *git.CommitInput) {
			in.Message = strings.Replace(in.Message, "Policy: ", "Policy: "+strings.Repeat("0", 40)+"\nX: ", 1)
		},
		"nothing excluded": func(in *git.CommitInput) { in.Message = in.Message[:strings.Index(in.Message, "Excludes:")] },
		"another tree": func(in *git.CommitInput) {
			blob, err := hub.WriteBlob([]byte("smuggled\n"))
			if err == nil {
				in.Tree, err = hub.EditTree(honest.Tree, []git.Edit{{Path: "c.txt", Hash: blob}})
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"a history that begins anew": func(in *git.CommitInput) {
			in.Parents, in.Tree = []git.Hash{main}, mainTree
			in.Message = strings.Replace(in.Message[:strings.Index(in.Message, "Excludes:")], "Repair: revert", "Repair: none", 1)
		},
		"policy in tree": func(in *git.CommitInput) {
			blob, err := hub.WriteBlob([]byte("checks: none\n"))
			if err == nil {
				in.Tree, err = hub.EditTree(mainTree, []git.Edit{{Path: ".greenward.yml", Hash: blob}})
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, lie := range lies {
		in := git.CommitInput{
			Tree: honest.Tree, Parents: slices.Clone(honest.Parents), Author: honest.Author, Committer: honest.Committer,
			Message: honest.Message, Signer: p.engine.Signer,
		}
		lie(&in)
		h, err := hub.WriteCommit(in)
		if err != nil {
			t.Fatal(err)
		}
		v, err := green.Verify(t.Context(), green.VerifyInput{Repo: hub.Repo, Commit: h})
		if err != nil || v.Valid || len(v.Faults) == 0 {
			t.Errorf("%s: got %+v, %v, want it invalid", name, v, err)
		}
	}
}

// TestVerifyFlippedByte changes single bytes of the signed commit.
func TestVerifyFlippedByte(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.good("b")
	p.cycle()
	raw := p.git("cat-file", "commit", "green") + "\n"
	for at := 0; at < len(raw); at += 17 {
		flipped := []byte(raw)
		flipped[at] ^= 1
		file := filepath.Join(t.TempDir(), "commit")
		if err := os.WriteFile(file, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		h := git.Hash(p.git("hash-object", "--literally", "-t", "commit", "-w", file))
		v, err := green.Verify(t.Context(), green.VerifyInput{Repo: p.engine.Hub.Repo, Commit: h})
		if err != nil || v.Valid {
			t.Errorf("byte %d (%q): got %+v, %v, want it invalid", at, raw[at], v, err)
		}
	}
}

func TestVerifyTrustsThePreviousPolicy(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.commit("name the signer", map[string]string{".greenward.yml": policyText + "# \n"})
	p.cycle()
	text := strings.Replace(policyText, "prefix]}", "prefix], signers: [\"ops@example.com "+p.engine.Signer.Public()+"\"]}", 1)
	p.commit("signers", map[string]string{".greenward.yml": text})
	p.cycle()
	p.good("c")
	p.cycle()
	v, err := green.Verify(t.Context(), green.VerifyInput{Repo: p.engine.Hub.Repo})
	if err != nil || !v.Valid || v.Trust != green.TrustPolicy {
		t.Errorf("got %+v, %v", v, err)
	}
	other, err := git.LoadKey(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	v, err = green.Verify(t.Context(), green.VerifyInput{Repo: p.engine.Hub.Repo, Signers: []byte("ops " + other.Public() + "\n")})
	if err != nil || v.Valid || v.Trust != green.TrustFile {
		t.Errorf("got %+v, %v, want it invalid: the file lists another key", v, err)
	}
}

func TestVerifyWorksInAClone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.good("b")
	p.cycle()
	dir := t.TempDir()
	gittest.Git(t, dir, "clone", "-q", "--mirror", p.dir, "m.git")
	repo, err := git.Open(t.Context(), filepath.Join(dir, "m.git"), gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := green.Verify(t.Context(), green.VerifyInput{Repo: repo}); err != nil || !v.Valid {
		t.Errorf("got %+v, %v", v, err)
	}
}

func TestVerifyWhereMainIsOlderOrElsewhere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.good("b")
	p.cycle()
	p.git("update-ref", "-d", "refs/greenward/log/green") // a clone has the branches alone
	p.git("branch", "stale", "main~1")
	p.git("branch", "elsewhere", "main~1")
	gittest.Commit(t, p.dir, "elsewhere", "another history", map[string]string{"z.txt": "z\n"})
	for ref, want := range map[git.Ref]bool{"refs/heads/stale": true, "refs/heads/elsewhere": false, "refs/heads/absent": false} {
		v, err := green.Verify(t.Context(), green.VerifyInput{Repo: p.engine.Hub.Repo, Main: ref, Green: "refs/heads/green"})
		if err != nil || v.Valid != want {
			t.Errorf("%s: got %+v, %v, want valid %v", ref, v, err, want)
		}
	}
}
