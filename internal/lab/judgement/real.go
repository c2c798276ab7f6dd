package judgement

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"greenward/green"
	"greenward/internal/git"
)

// Real has green cycles on made-up repositories with real commands as checks, which lie:
// they fail for nothing at times, and a break does not always show.
type Real struct {
	Repos int
	Seed  uint64
	Now   func() time.Time // required
	Say   func(format string, args ...any)
	// Open gives an engine on a fresh hub whose main is the given commit's; end closes it.
	Open func(ctx context.Context, begin func(*git.Repo) (git.Hash, error)) (engine *green.Engine, end func() error, err error)
	Dir  string // required: where checks remember how often they ran
}

// truth is one repository: which commits break it, alone or with another, and what the
// others bring.
type truth struct {
	culprits  map[git.Hash]bool
	innocents []string
}

// Run makes the cycles, one repository after another.
func (x *Real) Run(ctx context.Context) ([]Figure, error) {
	var promoted, right, named, kept, runs sample
	r := rand.New(rand.NewPCG(x.Seed, 99))
	for n := range x.Repos {
		if n%10 == 0 {
			x.Say("repository %d of %d …", n, x.Repos)
		}
		one, err := x.repository(ctx, r, n)
		if err != nil {
			return nil, fmt.Errorf("judge repository %d: %w", n, err)
		}
		promoted = append(promoted, one.promoted)
		right = append(right, one.right)
		named = append(named, one.innocentNamed)
		kept = append(kept, one.kept)
		runs = append(runs, one.runs)
	}
	work := fmt.Sprintf("%d real repositories, 6 to 30 commits, 0 to 3 culprits, f = 0 to 10 %%", x.Repos)
	return []Figure{
		promoted.share(work, "promoted"),
		right.share(work, "all culprits named"),
		named.share(work, "innocent named"),
		kept.mean(work, "share of innocents on green"),
		runs.mean(work, "runs of checks"),
	}, nil
}

// judged is how one repository ended.
type judged struct{ promoted, right, innocentNamed, kept, runs float64 }

func (x *Real) repository(ctx context.Context, r *rand.Rand, n int) (out judged, err error) {
	var t truth
	var repo *git.Repo
	engine, end, err := x.Open(ctx, func(at *git.Repo) (git.Hash, error) {
		repo = at
		return x.begin(at, r, filepath.Join(x.Dir, fmt.Sprint("runs-", n)))
	})
	if err != nil {
		return out, err
	}
	defer func() {
		if cerr := end(); err == nil {
			err = cerr
		}
	}()
	for range 4 { // a lying check may hold the first one too
		first, err := engine.Cycle(ctx)
		if err != nil {
			return out, err
		}
		if first.Promoted {
			break
		}
	}
	if err := x.grow(ctx, repo, r, &t); err != nil {
		return out, err
	}
	result, err := engine.Cycle(ctx)
	if err != nil {
		return out, err
	}
	out.promoted, out.runs = one(result.Promoted), float64(result.Runs)
	found := map[git.Hash]bool{}
	for _, c := range result.Culprits {
		if c.Kind == green.KindChange || c.Kind == green.KindInteraction {
			found[c.Commit] = true
			out.innocentNamed = max(out.innocentNamed, one(!t.culprits[c.Commit]))
		}
	}
	out.right = 1
	for h := range t.culprits {
		out.right = min(out.right, one(found[h]))
	}
	if !result.Promoted || result.Green == nil {
		return out, nil
	}
	files, err := repo.Files(*result.Green, "")
	if err != nil {
		return out, err
	}
	for _, name := range t.innocents {
		out.kept += one(slices.Contains(files, name)) / float64(len(t.innocents))
	}
	return out, nil
}

// begin writes the first commit: a policy whose check counts its runs in a file and
// fails every so many times for nothing.
func (x *Real) begin(repo *git.Repo, r *rand.Rand, count string) (git.Hash, error) {
	lie := "true"
	if every := []int{0, 50, 20, 10}[r.IntN(4)]; every > 0 {
		lie = fmt.Sprintf("test $(( ($(wc -l < %s) * 7 + %d) %% %d )) -ne 0 || exit 1", count, r.IntN(every), every)
	}
	policy := fmt.Sprintf(`checks:
  - {name: sh, run: "echo run >> %s; %s; for f in bad-*; do test ! -e $f || exit 1; done; for f in one-*; do test ! -e $f || test ! -e two-${f#one-} || exit 1; done"}
queue: {slots: 1}
green: {repair: [revert, subset, prefix], debt_limit: 20}
`, count, lie)
	return x.commit(repo, "", map[string]string{".greenward.yml": policy, "a": "a\n"})
}

// grow adds commits of which some are bad.
func (x *Real) grow(ctx context.Context, repo *git.Repo, r *rand.Rand, t *truth) error {
	main, err := repo.Resolve("refs/heads/main")
	if err != nil {
		return err
	}
	tip, total := main, 6+r.IntN(25)
	roles := map[int]string{}
	places := r.Perm(total)
	for range r.IntN(3) {
		roles[places[0]], places = fmt.Sprintf("bad-%d", places[0]), places[1:]
	}
	if r.IntN(3) == 0 {
		pair := places[:2]
		slices.Sort(pair)
		roles[pair[0]], roles[pair[1]] = fmt.Sprintf("one-%d", pair[0]), fmt.Sprintf("two-%d", pair[0])
	}
	t.culprits = map[git.Hash]bool{}
	for n := range total {
		name := fmt.Sprintf("fine-%d", n)
		if role, ok := roles[n]; ok {
			name = role
		}
		if tip, err = x.commit(repo, tip, map[string]string{name: "x\n"}); err != nil {
			return err
		}
		if strings.HasPrefix(name, "fine") {
			t.innocents = append(t.innocents, name)
		} else {
			t.culprits[tip] = true
		}
	}
	return repo.Transact(ctx, "grow", []git.RefUpdate{{Ref: "refs/heads/main", Old: main, New: tip}})
}

func (x *Real) commit(repo *git.Repo, parent git.Hash, files map[string]string) (git.Hash, error) {
	in := git.CommitInput{Tree: git.EmptyTree, Message: "work\n"}
	if !parent.IsZero() {
		c, err := repo.Commit(parent)
		if err != nil {
			return "", err
		}
		in.Tree, in.Parents = c.Tree, []git.Hash{parent}
	}
	var edits []git.Edit
	for path, text := range files {
		blob, err := repo.WriteBlob([]byte(text))
		if err != nil {
			return "", err
		}
		edits = append(edits, git.Edit{Path: path, Hash: blob})
	}
	var err error
	if in.Tree, err = repo.EditTree(in.Tree, edits); err != nil {
		return "", err
	}
	in.Author = git.Identity{Name: "lab", Email: "lab@localhost", When: x.Now().UTC().Truncate(time.Second)}
	in.Committer = in.Author
	return repo.WriteCommit(in)
}
