package lab

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"greenward/internal/git"
	"greenward/internal/proc"
)

// maxProcesses is how many changes are landed by three processes each; more of
// them only take longer.
const maxProcesses = 300

// rivalTime bounds what is measured beside the lander.
const rivalTime = 30 * time.Minute

// processes lands as a script does: merge-tree, commit-tree and update-ref for
// every change.
func (l *Land) processes(volatile bool) begin {
	return func(ctx context.Context, repo *git.Repo, _ *LandReport) (func() (int, error), error) {
		return l.script(ctx, repo, volatile)
	}
}

func (l *Land) script(ctx context.Context, repo *git.Repo, volatile bool) (func() (int, error), error) {
	heads := l.heads[:min(len(l.heads), maxProcesses)]
	var in strings.Builder
	for _, p := range heads {
		in.WriteString(string(p.head) + "\n")
	}
	const script = `tip=$(git rev-parse refs/heads/main) || exit 1
while read -r head; do
	tree=$(git merge-tree --write-tree "$tip" "$head") || exit 1
	next=$(git commit-tree "$tree" -p "$tip" -m "land $head") || exit 1
	git update-ref refs/heads/main "$next" "$tip" || exit 1
	tip=$next
done`
	return func() (int, error) {
		said := proc.NewCapture(1<<10, 4<<10, nil)
		result, err := proc.Run(ctx, proc.Command{
			Name: "sh", Args: []string{"-c", script}, Dir: repo.Dir(), Env: l.env(repo, volatile), Stdin: strings.NewReader(in.String()), Stderr: said, Timeout: rivalTime,
		})
		if err == nil && !result.OK() {
			err = fmt.Errorf("the script ended with %s: %s", result, said)
		}
		return len(heads), err
	}, nil
}

// env is the environment of a rival, which waits for the disk as the lander does.
func (l *Land) env(repo *git.Repo, volatile bool) []string {
	policy := git.Synced
	if volatile {
		policy = "core.fsync=none"
	}
	key, value, _ := strings.Cut(policy, "=")
	return append(repo.Host().Only("PATH", "TMPDIR"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C", "GIT_DIR="+repo.Dir(),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0="+key, "GIT_CONFIG_VALUE_0="+value,
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
}

// fastImport writes the same commits through one long-lived git fast-import,
// which makes them visible once a batch. It only writes: nothing is merged.
func (l *Land) fastImport(volatile bool) begin {
	return func(ctx context.Context, repo *git.Repo, _ *LandReport) (func() (int, error), error) {
		return l.importer(ctx, repo, volatile)
	}
}

func (l *Land) importer(ctx context.Context, repo *git.Repo, volatile bool) (func() (int, error), error) {
	return func() (int, error) {
		p, err := proc.Start(ctx, proc.Command{
			Name: "git", Args: []string{"fast-import", "--quiet", "--done"}, Dir: repo.Dir(), Env: l.env(repo, volatile), Timeout: rivalTime,
		})
		if err != nil {
			return 0, err
		}
		for i, c := range l.heads {
			message := "touch " + c.name + "\n"
			var b strings.Builder
			fmt.Fprintf(&b, "commit refs/heads/main\ncommitter Ada <ada@example.com> %d +0000\ndata %d\n%s\n", l.Now().Unix(), len(message), message)
			if i == 0 {
				fmt.Fprintf(&b, "from %s\n", l.Main)
			}
			fmt.Fprintf(&b, "M 100644 %s %q\n", c.blob, c.path)
			last := i == len(l.heads)-1 || (i+1)%l.Batch == 0
			if last {
				b.WriteString("checkpoint\nprogress landed\n")
			}
			if _, err := io.WriteString(p.Stdin, b.String()); err != nil {
				return 0, err
			}
			if last {
				if _, err := p.Stdout.ReadString('\n'); err != nil {
					return 0, err
				}
			}
		}
		if _, err := io.WriteString(p.Stdin, "done\n"); err != nil {
			return 0, err
		}
		result, err := p.Wait()
		if err == nil && !result.OK() {
			err = fmt.Errorf("fast-import ended with %s", result)
		}
		return len(l.heads), err
	}, nil
}
