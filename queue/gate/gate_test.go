package gate_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/queue/gate"

	"github.com/google/go-cmp/cmp"
)

const conflict = "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n"

// world is a repository whose main is judged.
type world struct {
	testing.TB
	dir  string
	repo *git.Repo
	gate *gate.Gate
}

func newWorld(t testing.TB, files map[string]string) *world {
	t.Helper()
	w := &world{TB: t, dir: gittest.Bare(t)}
	gittest.Commit(t, w.dir, "main", "begin", files)
	repo, err := git.Open(t.Context(), w.dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	w.repo, w.gate = repo, &gate.Gate{Repo: repo}
	return w
}

// try commits files on main, judges that, and says "rule path" for each finding.
func (w *world) try(rules config.Gate, message string, files map[string]string) []string {
	w.Helper()
	from := gittest.Git(w, w.dir, "rev-parse", "main")
	to := gittest.Commit(w, w.dir, "main", message, files)
	return w.check(rules, from, to)
}

func (w *world) check(rules config.Gate, from, to string) []string {
	w.Helper()
	found, err := w.gate.Check(w.Context(), rules, git.Hash(from), git.Hash(to))
	if err != nil {
		w.Fatal(err)
	}
	lines := []string{}
	for _, f := range found {
		if f.Why == "" {
			w.Errorf("%s %q: nothing is said", f.Rule, f.Path)
		}
		lines = append(lines, f.Rule+" "+f.Path)
	}
	return lines
}

func (w *world) want(got []string, want ...string) {
	w.Helper()
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		w.Errorf("findings (-want +got):\n%s", diff)
	}
}

// raw commits one entry of any mode.
func (w *world) raw(mode, hash, path string) []string {
	w.Helper()
	from := gittest.Git(w, w.dir, "rev-parse", "main")
	tree, err := w.repo.EditTree(git.Hash(from), []git.Edit{{Path: path, Mode: mode, Hash: git.Hash(hash)}})
	if err != nil {
		w.Fatal(err)
	}
	to := gittest.Git(w, w.dir, "commit-tree", string(tree), "-p", from, "-m", "raw")
	gittest.Git(w, w.dir, "update-ref", "refs/heads/main", to)
	return w.check(config.Gate{}, from, to)
}

func (w *world) link(path, target string) []string {
	w.Helper()
	blob, err := w.repo.WriteBlob([]byte(target))
	if err != nil {
		w.Fatal(err)
	}
	return w.raw(git.ModeSymlink, string(blob), path)
}

func TestMarkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"old": conflict, ".gitattributes": "*.adoc conflict-marker-size=32\n"})
	for _, row := range []struct {
		text string
		bad  bool
	}{
		{"", false},
		{conflict, true},
		{"x\n" + conflict + "y\n", true},
		{"Heading\n=======\n\ntext\n", false},
		{"<<<<<<< a\nno middle\n>>>>>>> b\n", false},
		{"Heading\n=======\n>>>>>>> quoted\n", false},
		{"> <<<<<<< a\n> =======\n> >>>>>>> b\n", false},
		{"<<<<<<< a\n========\n>>>>>>> b\n", false},
		{"<<<<<<<< a\n=======\n>>>>>>>> b\n", false},
		{"<<<<<<<\na\n||||||| base\nx\n=======\nb\n>>>>>>>\n", true},
		{"<<<<<<< a\r\n1\r\n=======\r\n2\r\n>>>>>>> b\r\n", true},
		{"\x00" + conflict, false},
	} {
		got := w.try(config.Gate{}, "change", map[string]string{"f.txt": row.text})
		if (len(got) == 1) != row.bad {
			t.Errorf("%q: %v", row.text, got)
		}
		w.try(config.Gate{}, "clear", map[string]string{"f.txt": gittest.Deleted})
	}
	wide := strings.NewReplacer("<<<<<<<", strings.Repeat("<", 32), "=======", strings.Repeat("=", 32), ">>>>>>>", strings.Repeat(">", 32)).Replace(conflict)
	w.want(w.try(config.Gate{}, "places where markers are text", map[string]string{
		"testdata/x": conflict, "docs/merge.adoc": conflict, "README.md": "```\n" + conflict + "```\n", "old": "more\n" + conflict,
	}))
	w.want(w.try(config.Gate{}, "places where they are not", map[string]string{
		"docs/merge.adoc": wide, "README.md": "r\n" + conflict, "old": conflict + conflict, "new": "n\n" + conflict,
	}), "markers README.md", "markers docs/merge.adoc", "markers new", "markers old")
	w.want(w.try(config.Gate{Skip: []config.Skip{{Rule: "markers", Paths: []string{"a/**"}}}}, "turned off", map[string]string{"a/b": "x\n" + conflict}))
}

func TestA30SizesProgramsAndNestedRepositories(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a": "a\n", "app": "\x7fELF\x02\x01\x01\x00old"})
	w.want(w.try(config.Gate{MaxFile: 100}, "large", map[string]string{"deep/down/big": strings.Repeat("x", 101), "fits": strings.Repeat("x", 100)}), "max_file deep/down/big")
	w.want(w.try(config.Gate{}, "programs", map[string]string{
		"bin/tool": "\x7fELF\x02\x01\x01\x00", "lib.a": "!<arch>\n\x00", "app": "\x7fELF\x02\x01\x01\x00new", "testdata/elf": "\x7fELF\x02\x01\x01\x00", "logo.png": "\x89PNG\r\n\x1a\n\x00",
	}), "binary bin/tool", "binary lib.a")
	head := gittest.Git(t, w.dir, "rev-parse", "main")
	w.want(w.raw(git.ModeSubmodule, head, "vendor/lib"), "nested vendor/lib")
	gittest.Commit(t, w.dir, "main", "modules", map[string]string{".gitmodules": "[submodule \"x\"]\n\tpath = third/x\n\turl = https://example.com/x\n"})
	w.want(w.raw(git.ModeSubmodule, head, "third/x"))
	w.want(w.raw(git.ModeSubmodule, gittest.Git(t, w.dir, "rev-parse", "main"), "vendor/lib"))
}

func TestA37NamesThatSomeFileSystemsCannotHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"README.md": "r\n", "src/a.go": "package a\n", "Old/x": "1\n", "old/x": "2\n"})
	w.want(w.try(config.Gate{}, "one more", map[string]string{"Readme.md": "r\n"}), "case Readme.md")
	w.want(w.try(config.Gate{}, "a folder", map[string]string{"Src/b.go": "package b\n"}), "case Src")
	w.want(w.try(config.Gate{}, "renamed", map[string]string{"src/a.go": gittest.Deleted, "src/A.go": "package a\n"}))
	w.want(w.try(config.Gate{}, "was there before", map[string]string{"old/y": "2\n"}))
	for name, bad := range map[string]bool{
		"sub/git~1/config": true, "sub/.git /config": true, "sub/.g\u200cit/config": true, ".git::$INDEX_ALLOCATION/x": true, ".gitx": false, ".github/x": false, "git": false, ".gitignore": false,
	} {
		if got := w.raw(git.ModeFile, gittest.Git(t, w.dir, "rev-parse", "main:README.md"), name); (len(got) == 1 && got[0] == "names "+name) != bad || len(got) > 1 {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestLinksOutOfTheTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a": "a\n"})
	for target, bad := range map[string]bool{
		"a": false, "../a": false, "../../a": true, "/etc/passwd": true, `C:\x`: true, "../.git/config": true, "x/../../../b": true, strings.Repeat("x/", 3000): true, "./b/../c": false,
	} {
		if got := w.link("dir/l", target); (len(got) == 1 && got[0] == "symlink dir/l") != bad || len(got) > 1 {
			t.Errorf("%.20q: %v", target, got)
		}
	}
}

func TestFilesThatNoLongerParse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"ok.go": "package a\n", "broken.go": "package\n", "a.json": "{}\n"})
	w.want(w.try(config.Gate{}, "fine", map[string]string{
		"new.go": "package a\n\nfunc F[T any](x T) T { return x }\n", "broken.go": "package a; func\n", "testdata/bad.go": "nonsense\n", "_x.go": "nonsense\n",
		"gen/t.go": "package {{ .Name }}\n", "tsconfig.json": "{\n  // why\n  \"a\": [1, 2,], /* b */\n}\n", "log.json": "{\"a\":1}\n{\"a\":2}\n", "empty.json": "",
		"bom.json": "\xef\xbb\xbf{}", "url.json": `{"u": "http://x//y"}`, "c.yml": "a: 1\n---\nb: !Ref x\n", "chart/t.yaml": "a: {{ .Values.x }}\n{{- if y }}\n", "x.go.tmpl": "nonsense",
	}))
	w.want(w.try(config.Gate{}, "not", map[string]string{
		"ok.go": "package a\n\nfunc {\n", "new.json": "{\"a\": }\n", "a.json": "{\"a\": 1\n", "d.yaml": "a: [1\nb: 2\n",
	}), "parse a.json", "parse d.yaml", "parse new.json", "parse ok.go")
	w.want(w.try(config.Gate{Skip: []config.Skip{{Rule: "parse", Paths: []string{"**/*.json"}}}}, "turned off", map[string]string{"b.json": "{"}))
}

func TestA30Secrets(t *testing.T) {
	t.Parallel()
	// Put together here, so that no scanner takes this file for a leak.
	body := "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW"
	key := "-----BEGIN OPENSSH PRIVATE" + " KEY-----\n" + body + "\n-----END OPENSSH PRIVATE" + " KEY-----\n"
	alphabet := "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYz"
	bad := map[string]string{
		"deploy/id": key,
		"key.json":  `{"k": "` + strings.ReplaceAll(key, "\n", `\n`) + `"}`,
		"aws.go":    "package a\n\nconst k = \"AKIA" + "Q3EGRZ7XK4NWVBTM\"\n",
		"gh.txt":    "token ghp_" + alphabet + "aB3\n",
		"slack.txt": "xoxb-" + "123456789012-1234567890123-" + alphabet[:24] + "\n",
		"openai.py": "key = 'sk-proj-" + alphabet + alphabet + "'\n",
		".env":      "DB_PASSWORD=hunter2-Korrekt-Horse\n",
	}
	w := newWorld(t, map[string]string{"a": "a\n"})
	var want []string
	for _, name := range []string{".env", "aws.go", "deploy/id", "gh.txt", "key.json", "openai.py", "slack.txt"} {
		want = append(want, "secrets "+name)
	}
	w.want(w.try(config.Gate{}, "leaks", bad), want...)
	bad["gh.txt"] += "more\n"
	w.want(w.try(config.Gate{}, "was there before", map[string]string{"gh.txt": bad["gh.txt"], "moved": bad["aws.go"], "aws.go": gittest.Deleted}))
	w.want(w.try(config.Gate{}, "no secrets", map[string]string{
		"tls/server_test.go": "package tls\n\nconst k = `" + key + "`\n",
		"docs.md":            "set AKIA" + "IOSFODNN7EXAMPLE, ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, sk-your-key-here\n-----BEGIN PRIVATE" + " KEY-----\n...\n-----END PRIVATE" + " KEY-----\n",
		".env":               "DB_PASSWORD=hunter2-Korrekt-Horse\nPORT=8080\nAPI_TOKEN=${TOKEN}\nSECRET_KEY=your-secret-here\n",
		".env.example":       "DB_PASSWORD=hunter2-Korrekt-Stute\n",
		"main.go":            "package a\n\n// the PRIVATE" + " KEY of a user begins with -----BEGIN\nconst hash = \"sk-abcdef\"\n",
	}))
}

const handoff = "\n\nTask: r/x\nClaim: 0123456789ab\nHandoff: done\n"

// text is a file of many lines, one of which tells versions apart.
func text(name string, version int) string {
	return fmt.Sprintf("%s\n%s\nversion %d\n%s\n", name, strings.Repeat("common line\n", 5), version, strings.Repeat("more\n", 5))
}

func TestA28SilentReverts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a": text("a", 0), "b": text("b", 0), "on": "1\n", "go.sum": text("s", 0)})
	for i := 1; i <= 20; i++ {
		w.want(w.try(config.Gate{}, "forward", map[string]string{"a": text("a", i), "on": fmt.Sprintf("%d\n", i), "go.sum": text("s", i)}))
	}
	w.want(w.try(config.Gate{}, "an old copy\n\nHandoff: done\n", map[string]string{"a": text("a", 3), "b": text("b", 1)}), "reverts a")
	w.want(w.try(config.Gate{}, "mend it", map[string]string{"a": text("a", 21)}))
	// A gate that has seen nothing of this finds it too.
	w.gate = &gate.Gate{Repo: w.repo}
	from := gittest.Git(t, w.dir, "rev-parse", "main")
	to := gittest.Commit(t, w.dir, "main", "an old copy"+handoff, map[string]string{"a": text("a", 20)})
	found, err := w.gate.Check(w.Context(), config.Gate{}, git.Hash(from), git.Hash(to))
	if err != nil || len(found) != 1 || !strings.Contains(found[0].Why, gittest.Git(t, w.dir, "rev-parse", "--short=12", from)) {
		t.Errorf("%+v, %v", found, err)
	}
	for _, message := range []string{
		"Back\n\nReverts: " + from, "Revert \"mend it\"\n\nThis reverts commit " + from + ".", "Other\n\nTask: r/x\nClaim: 0123456789ab\nHandoff: done\nHandoff-Deviation: took a back, it broke b\n",
	} {
		w.want(w.try(config.Gate{}, message, map[string]string{"a": text("a", 5)}))
		w.try(config.Gate{}, "on again", map[string]string{"a": text("a", 100+len(message))})
	}
	w.want(w.try(config.Gate{}, "too small, or a tool's", map[string]string{"on": "7\n", "go.sum": text("s", 4)}))
	w.want(w.try(config.Gate{Skip: []config.Skip{{Rule: "reverts", Paths: []string{"a"}}}}, "turned off", map[string]string{"a": text("a", 9)}))
}

// A person takes back what they did; only what a stale copy does is refused.
func TestA28PeopleMayTakeAFileBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a": text("a", 0), "b": text("b", 0), "c": text("c", 0)})
	w.want(w.try(config.Gate{}, "one", map[string]string{"a": text("a", 1), "b": text("b", 1)}))
	w.want(w.try(config.Gate{}, "a only", map[string]string{"a": text("a", 0), "c": text("c", 1)}))
	w.want(w.try(config.Gate{}, "b too", map[string]string{"b": text("b", 0)}))
	w.want(w.try(config.Gate{}, "two", map[string]string{"a": text("a", 2), "b": text("b", 2)}))
	w.want(w.try(config.Gate{}, "all of two, alone", map[string]string{"a": text("a", 0), "b": text("b", 0)}))
	w.want(w.try(config.Gate{}, "three", map[string]string{"a": text("a", 3), "b": text("b", 3)}))
	w.want(w.try(config.Gate{}, "another thing, from a stale copy", map[string]string{"a": text("a", 0), "b": text("b", 0), "c": text("c", 2)}),
		"reverts a", "reverts b")
}

func TestA28TheHistoryFollowsMainWhereverItGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a": text("a", 0)})
	base := gittest.Git(t, w.dir, "rev-parse", "main")
	w.want(w.try(config.Gate{}, "one", map[string]string{"a": text("a", 1)}))
	// What was judged does not land: main goes elsewhere.
	gittest.Git(t, w.dir, "update-ref", "refs/heads/main", base)
	w.want(w.try(config.Gate{}, "two", map[string]string{"a": text("a", 2)}))
	w.want(w.try(config.Gate{}, "what was one never stood on main", map[string]string{"a": text("a", 1)}))
	w.want(w.try(config.Gate{}, "two did"+handoff, map[string]string{"a": text("a", 2)}), "reverts a")
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	block := "func block() {\n\tone two three four five\n\tsix seven eight nine ten\n\televen twelve thirteen\n}\n"
	w := newWorld(t, map[string]string{"list": "head\n", "other": "o\n"})
	w.want(w.try(config.Gate{}, "first", map[string]string{"list": "head\n" + block}))
	w.want(w.try(config.Gate{}, "else", map[string]string{"other": "p\n"}))
	w.want(w.try(config.Gate{}, "again", map[string]string{"list": "head\n" + block + block}), "duplicate list")
	w.want(w.try(config.Gate{}, "again, and more", map[string]string{"list": "head\n" + block + block + block + "x\n"}))
	w.try(config.Gate{}, "Revert all", map[string]string{"list": "head\n"})
	w.want(w.try(config.Gate{}, "once more, by hand", map[string]string{"list": "head\n" + block + "!\n"}))
}

func TestHandoffsThatGitDoesNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a": "a\n"})
	block := "Task: r/x\nClaim: 0123456789ab\nHandoff: done\n"
	w.want(w.try(config.Gate{}, "good\n\n"+block, map[string]string{"a": "b\n"}))
	w.want(w.try(config.Gate{}, "prose after\n\n"+block+"\nand so it is done\n", map[string]string{"a": "c\n"}), "trailers .")
	w.want(w.try(config.Gate{}, "talk\n\nTask: is a word\n\nand more\n", map[string]string{"a": "d\n"}))
}

func TestS66BannedAndDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"go.mod": "require left-pad\n", "old.pem": "x\n"})
	rules := config.Gate{Banned: []string{"left-pad"}, Deny: []string{"**/*.pem"}}
	w.want(w.try(rules, "old ones stay", map[string]string{"go.mod": "x\nrequire left-pad\n", "old.pem": "y\n"}))
	w.want(w.try(rules, "new ones", map[string]string{"b": "left-pad\n", filepath.Join("d", "k.pem"): "x\n"}), "banned b", "deny d/k.pem")
}

// What was judged ahead is neither lost nor judged twice: with and without
// Foresee a landing gets the same findings, also where the rules, the file or
// what a .gitattributes says has changed in between.
func TestForeseeChangesNoFinding(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.go": "package a\n", "b.json": "{}\n", "c.txt": "c\n"})
	base := gittest.Git(t, w.dir, "rev-parse", "main")
	changes := []map[string]string{
		{"a.go": "package a\n\nvar x = 1\n"},
		{"a.go": "package a\n\nvar x = \n"},
		{"b.json": "{\"a\": 1}\n", "c.txt": conflict},
		{"c.txt": strings.Repeat("c", 200)},
		{"d.txt": "do not say forbidden\n"},
	}
	for i, files := range changes {
		for _, rules := range []config.Gate{config.Default().Queue.Gate, {MaxFile: 100}, {Banned: []string{"forbidden"}}} {
			branch := fmt.Sprint("change", i)
			gittest.Git(t, w.dir, "branch", "-f", branch, base)
			head := gittest.Commit(t, w.dir, branch, "change", files)
			plain := &gate.Gate{Repo: w.repo}
			want, err := plain.Check(t.Context(), rules, git.Hash(base), git.Hash(head))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := w.gate.Foresee(t.Context(), rules, git.Hash(base), git.Hash(head)); err != nil {
					t.Fatal(err)
				}
				got, err := w.gate.Check(w.Context(), rules, git.Hash(base), git.Hash(head))
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("change %d (-want +got): %v\n%s", i, err, diff)
				}
			}
		}
	}
}

// A language that is not read here is parsed by a command of the policy; one that
// cannot be run blames no change.
func TestParseByCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"old.toml": "bad\n", "a.toml": "good = 1\n"})
	rules := config.Gate{Parse: []config.Parser{{Paths: []string{"**/*.toml"}, Run: "! grep -n bad"}}}
	for _, c := range []struct {
		files map[string]string
		want  []string
	}{
		{map[string]string{"a.toml": "good = 2\n", "b.toml": "good = 1\n"}, []string{}},
		{map[string]string{"c.toml": "x\nbad\n", "c.txt": "bad\n"}, []string{"parse c.toml"}},
		{map[string]string{"a.toml": "bad\n"}, []string{"parse a.toml"}},
		{map[string]string{"old.toml": "bad still\n"}, []string{}}, // mended in steps
		{map[string]string{"testdata/t.toml": "bad\n"}, []string{}},
	} {
		if diff := cmp.Diff(c.want, w.try(rules, "change", c.files)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.files, diff)
		}
	}
	from := gittest.Git(t, w.dir, "rev-parse", "main")
	to := gittest.Commit(t, w.dir, "main", "change", map[string]string{"d.toml": "good = 1\n"})
	for _, run := range []string{"no-such-parser-anywhere", "kill -9 $$"} {
		rules.Parse[0].Run = run
		if found, err := w.gate.Check(t.Context(), rules, git.Hash(from), git.Hash(to)); err == nil {
			t.Errorf("%s: %v", run, found)
		}
	}
}

// TestA36LargeFiles: with no git-lfs installed neither is content committed where
// a pointer belongs, nor a pointer where content does.
func TestA36LargeFiles(t *testing.T) {
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("4d", 32) + "\nsize 12345\n"
	binary := "\x00\x01picture"
	w := newWorld(t, map[string]string{
		".gitattributes":      "*.png filter=lfs diff=lfs merge=lfs -text\n/docs/small.png -filter\n",
		"logo.png":            pointer,
		"docs/.gitattributes": "*.bin filter=lfs\nplain.bin !filter\n",
	})
	w.want(w.try(config.Gate{}, "content", map[string]string{"logo.png": binary}), "lfs logo.png")
	w.want(w.try(config.Gate{}, "still content", map[string]string{"logo.png": binary + "2", "new.png": "\x00new"}), "lfs logo.png", "lfs new.png")
	w.want(w.try(config.Gate{}, "pointers", map[string]string{"logo.png": pointer + "ext-0-a sha256:00\n", "new.png": pointer}))
	w.want(w.try(config.Gate{}, "text for a pointer", map[string]string{"logo.png": "text\n"}), "lfs logo.png")
	w.want(w.try(config.Gate{}, "exempt", map[string]string{"docs/small.png": binary, "docs/plain.bin": "\x00\x02"}))
	w.want(w.try(config.Gate{}, "pointers astray", map[string]string{"a.txt": pointer, "docs/plain.bin": pointer, "testdata/p": pointer}), "lfs a.txt", "lfs docs/plain.bin")
	w.want(w.try(config.Gate{}, "with its attribute", map[string]string{"b.dat": pointer, ".gitattributes": "*.dat filter=lfs\n"}))
	w.want(w.try(config.Gate{}, "too large to read", map[string]string{"docs/a.bin": strings.Repeat("x", 9<<20)}), "lfs docs/a.bin")
	w.want(w.try(config.Gate{Skip: []config.Skip{{Rule: "lfs", Paths: []string{"docs/**"}}}}, "turned off", map[string]string{"docs/c.bin": "\x00c"}))
}
