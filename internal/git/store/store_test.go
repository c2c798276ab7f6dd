package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// gitIn runs git on a repository, with dates and settings of its own.
func gitIn(t *testing.T, dir, in string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	result, err := proc.Run(t.Context(), proc.Command{
		Name: "git", Args: append([]string{"--git-dir=" + dir}, args...), Dir: t.TempDir(), Stdin: strings.NewReader(in), Stdout: &out,
		Env: append(gittest.Host(t).Only("PATH", "HOME"), "GIT_CONFIG_NOSYSTEM=1"), Timeout: time.Minute,
	})
	if err != nil || !result.OK() {
		t.Fatalf("git %v: %v, %v", args, result, err)
	}
	return out.String()
}

// grown is a repository with a history of texts that grow, which git stores as
// differences, a tag, an empty file and a large one.
func grown(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "r.git")
	gitIn(t, dir, "", "init", "-q", "--bare", "-b", "main")
	r := rand.New(rand.NewPCG(1, 2))
	var in strings.Builder
	var lines strings.Builder
	for i := range 60 {
		fmt.Fprintf(&lines, "line %d of %d\n", i, r.Uint64())
		text := lines.String()
		big := strings.Repeat(text, 1+r.IntN(20))
		fmt.Fprintf(&in, "commit refs/heads/main\ncommitter Ada <ada@example.com> %d +0000\ndata 6\nchange", 1_700_000_000+i)
		fmt.Fprintf(&in, "\nM 100644 inline d%d/text\ndata %d\n%s\nM 100644 inline big\ndata %d\n%s\nM 100644 inline e%d\ndata 0\n\n", i%7, len(text), text, len(big), big, i)
	}
	in.WriteString("tag v1\nfrom refs/heads/main\ntagger Ada <ada@example.com> 1700000000 +0000\ndata 4\nname\n")
	gitIn(t, dir, in.String(), "fast-import", "--quiet")
	return dir
}

// agree checks that the store says of every object what git says.
func agree(t *testing.T, dir string, s *Store) {
	t.Helper()
	names := strings.Fields(gitIn(t, dir, "", "cat-file", "--batch-all-objects", "--batch-check=%(objectname)", "--unordered"))
	if len(names) < 200 {
		t.Fatalf("%d objects", len(names))
	}
	var all strings.Builder
	for _, name := range names {
		kind, data, err := s.Object(name)
		if err != nil {
			t.Fatal(err)
		}
		size, err := s.Size(name)
		if err != nil || size != int64(len(data)) {
			t.Fatalf("size of %s: %d, and it has %d: %v", name, size, len(data), err)
		}
		fmt.Fprintf(&all, "%s %s %d\n%s\n", name, kind, len(data), data)
	}
	if want := gitIn(t, dir, strings.Join(names, "\n")+"\n", "cat-file", "--batch"); all.String() != want {
		t.Error("the store and git read different objects")
	}
}

func TestReadsWhatGitStores(t *testing.T) {
	t.Parallel()
	dir := grown(t)
	for name, args := range map[string][]string{
		"as imported":       {"rev-parse", "HEAD"},
		"deep differences":  {"repack", "-adfq", "--depth=50", "--window=50"},
		"bases by name":     {"-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq", "--depth=50"},
		"large offsets":     {"-c", "pack.indexVersion=2", "repack", "-adfq"},
		"with an overview":  {"multi-pack-index", "write"},
		"nothing is packed": {"config", "x.y", "z"},
	} {
		t.Run(name, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "c.git")
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			gitIn(t, copied, "", args...)
			if name == "nothing is packed" {
				unpack(t, copied)
			}
			if name == "large offsets" {
				index(t, copied)
			}
			s := Open(filepath.Join(copied, "objects"), "")
			agree(t, copied, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			agree(t, copied, s) // it opens again
		})
	}
}

func packs(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no packs: %v", err)
	}
	return found
}

// unpack makes every object lie by itself.
func unpack(t *testing.T, dir string) {
	t.Helper()
	for _, p := range packs(t, dir) {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, end := range []string{".pack", ".idx"} {
			if err := os.Remove(strings.TrimSuffix(p, ".pack") + end); err != nil {
				t.Fatal(err)
			}
		}
		gitIn(t, dir, string(data), "unpack-objects", "-q")
	}
}

// index makes an index whose offsets from 100 on take eight bytes.
func index(t *testing.T, dir string) {
	t.Helper()
	for _, p := range packs(t, dir) {
		idx := strings.TrimSuffix(p, ".pack") + ".idx"
		if err := os.Remove(idx); err != nil {
			t.Fatal(err)
		}
		gitIn(t, dir, "", "index-pack", "--index-version=2,100", "-o", idx, p)
	}
}

// What comes, is packed anew or is borrowed is found; what never was is absent.
func TestFindsWhatComesLater(t *testing.T) {
	t.Parallel()
	dir := grown(t)
	s := Open(filepath.Join(dir, "objects"), "")
	agree(t, dir, s)
	late := strings.TrimSpace(gitIn(t, dir, "late\n", "hash-object", "-w", "--stdin"))
	if kind, data, err := s.Object(late); err != nil || kind != Blob || string(data) != "late\n" {
		t.Errorf("%v %q %v", kind, data, err)
	}
	gitIn(t, dir, "", "repack", "-adfq", "--keep-unreachable")
	agree(t, dir, s)
	borrower := filepath.Join(t.TempDir(), "b.git")
	gitIn(t, borrower, "", "init", "-q", "--bare", "-b", "main")
	for _, from := range []string{filepath.Join(dir, "objects"), "../../../" + filepath.Join("x", "..", "r.git")} {
		if err := os.WriteFile(filepath.Join(borrower, "objects", "info", "alternates"), []byte("# a word\n"+from+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, _, err := Open(filepath.Join(borrower, "objects"), "").Object(late)
		if from[0] == '/' && err != nil {
			t.Errorf("borrowed: %v", err)
		}
		if from[0] != '/' && !errors.Is(err, ErrAbsent) {
			t.Errorf("borrowed from nowhere: %v", err)
		}
	}
	absent := strings.Repeat("ab", 20)
	if _, _, err := s.Object(absent); !errors.Is(err, ErrAbsent) {
		t.Errorf("absent: %v", err)
	}
	if _, err := s.Size(absent); !errors.Is(err, ErrAbsent) {
		t.Errorf("absent: %v", err)
	}
	if _, _, err := s.Object("HEAD"); err == nil {
		t.Error("HEAD is no object's name")
	}
	gitIn(t, dir, "", "-c", "pack.indexVersion=1", "repack", "-adfq", "--keep-unreachable")
	s = Open(filepath.Join(dir, "objects"), "")
	if _, _, err := s.Object(late); !errors.Is(err, ErrForeign) {
		t.Errorf("with an index of the old kind: %v", err)
	}
}

// A torn file is never taken for an object; a whole copy beside it is found.
func TestTornIsNeverRead(t *testing.T) {
	t.Parallel()
	dir := grown(t)
	name := strings.TrimSpace(gitIn(t, dir, "", "rev-parse", "HEAD"))
	loose := filepath.Join(dir, "objects", name[:2], name[2:])
	if err := os.MkdirAll(filepath.Dir(loose), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(loose, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(filepath.Join(dir, "objects"), "").Object(name); err != nil {
		t.Errorf("a torn file beside a pack: %v", err)
	}
	if err := os.Remove(loose); err != nil {
		t.Fatal(err)
	}
	unpack(t, dir)
	whole, err := os.ReadFile(loose)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.TrimSpace(gitIn(t, dir, "", "rev-parse", "HEAD~1"))
	foreign, err := os.ReadFile(filepath.Join(dir, "objects", other[:2], other[2:]))
	if err != nil {
		t.Fatal(err)
	}
	s := Open(filepath.Join(dir, "objects"), "")
	if err := os.Chmod(loose, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, torn := range [][]byte{nil, whole[:1], whole[:len(whole)/2], whole[:len(whole)-1], bytes.Repeat([]byte{0}, len(whole)), foreign} {
		if err := os.WriteFile(loose, torn, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Object(name); !errors.Is(err, ErrTorn) {
			t.Errorf("%d of %d bytes: %v", len(torn), len(whole), err)
		}
	}
	if _, err := s.Size(name); err != nil && !errors.Is(err, ErrTorn) {
		t.Errorf("size: %v", err)
	}
}

// A pack in which bytes are changed gives the right object or none.
func TestRottenPackGivesNothingWrong(t *testing.T) {
	t.Parallel()
	dir := grown(t)
	gitIn(t, dir, "", "repack", "-adfq", "--depth=50", "--window=50")
	names := strings.Fields(gitIn(t, dir, "", "rev-list", "--objects", "--no-object-names", "HEAD"))
	good := Open(filepath.Join(dir, "objects"), "")
	pack := packs(t, dir)[0]
	whole, err := os.ReadFile(pack)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(pack, 0o644); err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{}
	for _, name := range names {
		if _, want[name], err = good.Object(name); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	wrong := 0
	for range 60 {
		rotten := bytes.Clone(whole)
		for range 1 + r.IntN(30) {
			rotten[r.IntN(len(rotten))] ^= byte(1 + r.IntN(255))
		}
		if r.IntN(4) == 0 {
			rotten = rotten[:r.IntN(len(rotten))]
		}
		if err := os.WriteFile(pack, rotten, 0o644); err != nil {
			t.Fatal(err)
		}
		s := Open(filepath.Join(dir, "objects"), "")
		for _, name := range names {
			_, data, err := s.Object(name)
			if err == nil && !bytes.Equal(data, want[name]) {
				t.Fatalf("%s is another object", name)
			}
			if err != nil {
				wrong++
			}
			_, _ = s.Size(name) // must not fall over
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if wrong == 0 {
		t.Error("nothing was rotten")
	}
}

func FuzzPatch(f *testing.F) {
	f.Add([]byte("base"), []byte{4, 3, 0x90, 3})
	f.Add([]byte("base"), []byte{4, 8, 0x90, 4, 4, 'm', 'o', 'r', 'e'})
	f.Fuzz(func(t *testing.T, base, delta []byte) {
		out, err := patch(base, delta)
		if err != nil && !errors.Is(err, ErrTorn) {
			t.Errorf("err = %v", err)
		}
		if err == nil {
			_, rest, _ := length(delta)
			if want, _, _ := length(rest); want != int64(len(out)) {
				t.Errorf("%d bytes, %d were announced", len(out), want)
			}
		}
	})
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte{0xff, 't', 'O', 'c', 0, 0, 0, 2}, byte(0))
	f.Add(append([]byte{0xff, 't', 'O', 'c', 0, 0, 0, 2}, make([]byte, fanSize+sumsSize)...), byte(3))
	f.Fuzz(func(t *testing.T, data []byte, first byte) {
		path := filepath.Join(t.TempDir(), "p")
		if err := os.WriteFile(path+".idx", data, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := openPack(path)
		if err != nil {
			return
		}
		if at, has := p.find([20]byte{first}); has {
			if _, _, err := Open(path, "").entry(p, at); err == nil {
				t.Error("an object was read from a pack that is not there")
			}
		}
	})
}
