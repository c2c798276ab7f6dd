package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"greenward/internal/git"
	"greenward/internal/proc"
)

// rivalTime bounds what is measured beside the lander.
const rivalTime = 30 * time.Minute

// script lands as a script does: merge-tree, commit-tree and update-ref for every
// change.
func script(ctx context.Context, r *race) (func() (int, error), error) {
	var in strings.Builder
	for _, p := range r.heads {
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
			Name: "sh", Args: []string{"-c", script}, Dir: r.repo.Dir(), Env: r.env(), Stdin: strings.NewReader(in.String()), Stderr: said, Timeout: rivalTime,
		})
		if err == nil && !result.OK() {
			err = fmt.Errorf("the script ended with %s: %s", result, said)
		}
		return len(r.heads), err
	}, nil
}

// env is the environment of a rival, which waits for the disk as the lander does.
func (r *race) env() []string {
	policy := git.Synced
	if !r.synced {
		policy = "core.fsync=none"
	}
	key, value, _ := strings.Cut(policy, "=")
	return append(r.repo.Host().Only("PATH", "TMPDIR"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C", "GIT_DIR="+r.repo.Dir(),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0="+key, "GIT_CONFIG_VALUE_0="+value,
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
}

// importer writes the same commits through one long-lived git fast-import. It only
// writes: nothing is merged, and no file is looked at.
type importer struct {
	checkpoint bool // make them visible once a batch, as a lander must; else in the end
	all        bool // write the log of the landings, and remove the branches, too
}

func (f importer) begin(ctx context.Context, r *race) (func() (int, error), error) {
	if f.all {
		if err := r.l.offer(ctx, r.repo, r.heads); err != nil {
			return nil, err
		}
	}
	trace := filepath.Join(r.repo.Dir(), "lab-trace")
	r.syncs = func() (int64, error) { return tracedSyncs(trace) }
	return func() (int, error) {
		p, err := proc.Start(ctx, proc.Command{
			Name: "git", Args: []string{"fast-import", "--quiet", "--done"}, Dir: r.repo.Dir(), Timeout: rivalTime,
			Env: append(r.env(), "GIT_TRACE2_EVENT="+trace),
		})
		if err != nil {
			return 0, err
		}
		if err := f.feed(r, p); err != nil {
			return 0, err
		}
		result, err := p.Wait()
		if err == nil && !result.OK() {
			err = fmt.Errorf("fast-import ended with %s", result)
		}
		return len(r.heads), err
	}, nil
}

// feed tells fast-import everything, and waits where it is to make it visible.
func (f importer) feed(r *race, p *proc.Process) error {
	for from := 0; from < len(r.heads); from += r.batch {
		var b strings.Builder
		part := r.heads[from:min(len(r.heads), from+r.batch)]
		for i, c := range part {
			fmt.Fprintf(&b, "commit refs/heads/main\n%s", signed("touch "+c.name+"\n", r.l.Now()))
			if from+i == 0 {
				fmt.Fprintf(&b, "from %s\n", r.l.Main)
			}
			fmt.Fprintf(&b, "M 100644 %s %q\n", c.blob, c.path)
		}
		if f.all {
			f.story(&b, r, part)
		}
		if !f.checkpoint {
			if _, err := io.WriteString(p.Stdin, b.String()); err != nil {
				return err
			}
			continue
		}
		b.WriteString("checkpoint\nprogress landed\n")
		if _, err := io.WriteString(p.Stdin, b.String()); err != nil {
			return err
		}
		if _, err := p.Stdout.ReadString('\n'); err != nil {
			return err
		}
	}
	_, err := io.WriteString(p.Stdin, "done\n")
	return err
}

// story is the log of a batch, as long as the lander's, and the end of its branches.
func (f importer) story(b *strings.Builder, r *race, part []prepared) {
	var message strings.Builder
	message.WriteString("landed\n\n")
	for _, c := range part {
		line := fmt.Sprintf(`{"entry":"%s@%s","head":"%s","state":"landed","landed":"%s"`, c.name, c.head[:12], c.head, c.head)
		message.WriteString(line + strings.Repeat(" ", max(0, 440-len(line))) + "}\n")
	}
	fmt.Fprintf(b, "commit %s\n%s\n", git.QueueLog, signed(message.String(), r.l.Now()))
	for _, c := range part {
		fmt.Fprintf(b, "reset %s%s\nfrom %s\n\n", git.QueuePrefix, c.name, strings.Repeat("0", 40))
	}
}

func signed(message string, when time.Time) string {
	return fmt.Sprintf("committer Ada <ada@example.com> %d +0000\ndata %d\n%s", when.Unix(), len(message), message)
}

// tracedSyncs adds up how often gits waited for the disk, by what they traced.
func tracedSyncs(trace string) (int64, error) {
	data, err := os.ReadFile(trace)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var all int64
	for line := range bytes.Lines(data) {
		var event struct{ Category, Key, Value string }
		if err := json.Unmarshal(line, &event); err != nil || event.Category != "fsync" {
			continue // events have values of many kinds: only these are text
		}
		n, err := strconv.ParseInt(event.Value, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("count how often git waited for the disk: %w", err)
		}
		all += n
	}
	return all, nil
}
