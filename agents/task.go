package agents

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"greenward/green/accept"

	"go.yaml.in/yaml/v3"
)

// DefaultPriority is the priority of a task that names none; 0 comes first, 9 last.
const DefaultPriority = 5

const (
	maxTaskFile = 256 << 10
	maxTitle    = 200
	maxSlug     = 48
)

// Task is one file under tasks/: open work for one worker.
type Task struct {
	ID         string   // path without tasks/ and .md
	Title      string   // one line
	Priority   int      // 0 first … 9
	Paths      []string // globs that the work should stay in
	After      []string // ids that must be finished first
	Acceptance []string // commands that the harness runs before the hand-off
	Size       string   // free text: S, M, L
	Extra      []Extra  // unknown keys, in the order of the file
	Body       string   // intent, constraints, how it will be judged
}

// Names reports whether the task says that the work should be in a file.
func (t Task) Names(file string) bool {
	return accept.Covers(t.Paths, file)
}

// Extra is a front matter key that greenward does not know and keeps.
type Extra struct{ Key, YAML string }

// MalformedError names a task file that cannot be read, what is wrong in it,
// and the cure. It concerns that file alone.
type MalformedError struct{ Path, Problem, Cure string }

// Error is the one-line report that the planner reads.
func (e *MalformedError) Error() string {
	return fmt.Sprintf("task file %q: %s; %s", e.Path, e.Problem, e.Cure)
}

// TaskPath is where the file of a task stands in the tree.
func TaskPath(id string) string { return "tasks/" + id + ".md" }

// GoalPath is where the goal of a planner (a run or a slice) stands in the tree.
func GoalPath(planner string) string { return "tasks/" + planner + "/GOAL.md" }

// CheckID refuses a task or planner id that could not be a path and a ref
// everywhere: lower-case ASCII letters, digits, '-', '_' and '.' in components
// that begin with a letter or digit.
func CheckID(id string) error {
	if id == "" || len(id) > 150 {
		return fmt.Errorf("id %q: 1 to 150 characters are wanted", id)
	}
	for part := range strings.SplitSeq(id, "/") {
		if err := checkPart(part); err != nil {
			return fmt.Errorf("id %q: %w", id, err)
		}
	}
	return nil
}

func checkPart(part string) error {
	switch {
	case part == "":
		return errors.New("an empty path component")
	case strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "":
		return fmt.Errorf("component %q: only a-z, 0-9, '-', '_' and '.' are allowed", part)
	case strings.ContainsAny(part[:1], "-_."):
		return fmt.Errorf("component %q must begin with a letter or digit", part)
	case strings.Contains(part, "..") || strings.HasSuffix(part, ".") || strings.HasSuffix(part, ".lock"):
		return fmt.Errorf("component %q must not hold .. nor end with . or .lock", part)
	}
	return nil
}

// Slug is a name for title: words in lower-case ASCII and four characters drawn
// from rand, so that two planners with the same thought do not collide.
func Slug(title string, rand io.Reader) (string, error) {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= maxSlug {
			break
		}
	}
	words := strings.Trim(b.String(), "-")
	if words == "" {
		words = "task"
	}
	const letters = "abcdefghijkmnpqrstuvwxyz23456789" // 32: a byte is drawn without bias
	var drawn [4]byte
	if _, err := io.ReadFull(rand, drawn[:]); err != nil {
		return "", fmt.Errorf("draw a suffix for %q: %w", title, err)
	}
	for i, c := range drawn {
		drawn[i] = letters[int(c)%len(letters)]
	}
	return words + "-" + string(drawn[:]), nil
}

// ParseTask reads the file of the task id. It is strict: what it does not
// understand is a *MalformedError, except unknown keys, which are kept.
func ParseTask(id string, data []byte) (Task, error) {
	p := taskParser{task: Task{ID: id, Priority: DefaultPriority}}
	if err := CheckID(id); err != nil {
		return Task{}, p.malformed(err.Error(), "rename the file")
	}
	front, body, err := p.split(data)
	if err != nil {
		return Task{}, err
	}
	if err := p.frontMatter(front); err != nil {
		return Task{}, err
	}
	p.task.Body = strings.Trim(strings.ReplaceAll(body, "\r\n", "\n"), "\n")
	return p.task, nil
}

type taskParser struct{ task Task }

func (p *taskParser) malformed(problem, cure string) error {
	return &MalformedError{Path: TaskPath(p.task.ID), Problem: problem, Cure: cure}
}

const frontCure = "begin the file with a line --- , YAML with at least `title:`, and a line ---"

func (p *taskParser) split(data []byte) (front []byte, body string, err error) {
	switch {
	case len(data) > maxTaskFile:
		return nil, "", p.malformed(fmt.Sprintf("%d bytes is too long", len(data)), fmt.Sprintf("keep it under %d bytes", maxTaskFile))
	case !utf8.Valid(data) || bytes.ContainsRune(data, 0):
		return nil, "", p.malformed("not UTF-8 text", "write it as UTF-8 without NUL")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	text := string(data)
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t\r") != "---" {
		return nil, "", p.malformed("no front matter", frontCure)
	}
	var lines []string
	for {
		line, after, more := strings.Cut(rest, "\n")
		if strings.TrimRight(line, " \t\r") == "---" {
			return []byte(strings.Join(lines, "\n") + "\n"), after, nil
		}
		if !more {
			return nil, "", p.malformed("the front matter does not end", frontCure)
		}
		lines, rest = append(lines, strings.TrimRight(line, "\r")), after
	}
}

func (p *taskParser) frontMatter(front []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(front, &doc); err != nil {
		return p.malformed("the front matter is not YAML ("+strings.TrimPrefix(err.Error(), "yaml: ")+")", frontCure)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return p.malformed("the front matter is not a mapping", frontCure)
	}
	pairs := doc.Content[0].Content
	seen := map[string]bool{}
	for i := 0; i+1 < len(pairs); i += 2 {
		key, value := pairs[i], pairs[i+1]
		if key.Kind != yaml.ScalarNode || !plainYAML(key) || !plainYAML(value) {
			return p.malformed("a key that is no word, or an anchor, alias or tag", "write plain keys and values")
		}
		if seen[key.Value] {
			return p.malformed(fmt.Sprintf("key %q twice", key.Value), "keep one of them")
		}
		seen[key.Value] = true
		if err := p.key(key, value); err != nil {
			return err
		}
	}
	if p.task.Title == "" {
		return p.malformed("no title", "add a line `title: …` to the front matter")
	}
	return nil
}

// plainYAML reports whether a node means the same when it is written elsewhere.
func plainYAML(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		return false
	}
	return !slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return !plainYAML(c) })
}

func (p *taskParser) key(key, value *yaml.Node) error {
	t := &p.task
	switch key.Value {
	case "title":
		return p.line(key.Value, value, &t.Title, maxTitle)
	case "size":
		return p.line(key.Value, value, &t.Size, maxTitle)
	case "priority":
		var n int
		if value.Decode(&n) != nil || value.Tag != "!!int" || n < 0 || n > 9 {
			return p.malformed(fmt.Sprintf("priority %q", value.Value), "write a whole number from 0 (first) to 9")
		}
		t.Priority = n
		return nil
	case "paths":
		return p.list(key.Value, value, &t.Paths)
	case "acceptance":
		return p.list(key.Value, value, &t.Acceptance)
	case "after":
		if err := p.list(key.Value, value, &t.After); err != nil {
			return err
		}
		for _, id := range t.After {
			if err := CheckID(id); err != nil {
				return p.malformed("after: "+err.Error(), "write the id of a task: its path without tasks/ and .md")
			}
		}
		return nil
	}
	text, err := encodeYAML(key, value)
	if err != nil {
		return p.malformed(fmt.Sprintf("key %q cannot be kept (%v)", key.Value, err), "write it as plain YAML")
	}
	t.Extra = append(t.Extra, Extra{Key: key.Value, YAML: text})
	return nil
}

func (p *taskParser) line(key string, value *yaml.Node, into *string, most int) error {
	if value.Kind != yaml.ScalarNode || value.Tag == "!!null" || !isLine(value.Value) || len(value.Value) > most {
		return p.malformed(fmt.Sprintf("%s is not one line of text", key), fmt.Sprintf("write `%s: …` in at most %d bytes", key, most))
	}
	*into = value.Value
	return nil
}

// list reads a list; one text that stands alone is a list of one, except of ids.
func (p *taskParser) list(key string, value *yaml.Node, into *[]string) error {
	if key != "after" && value.Kind == yaml.ScalarNode && value.Tag != "!!null" && isLine(value.Value) {
		*into = append(*into, value.Value)
		return nil
	}
	if value.Kind != yaml.SequenceNode || len(value.Content) > 100 {
		return p.malformed(key+" is not a list", fmt.Sprintf("write `%s: [one, two]`, at most 100", key))
	}
	for _, item := range value.Content {
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" || !isLine(item.Value) {
			return p.malformed(key+" holds something that is not one line of text", "write one short text an item")
		}
		*into = append(*into, item.Value)
	}
	return nil
}

func isLine(s string) bool {
	return s != "" && strings.TrimSpace(s) == s && !strings.ContainsFunc(s, func(r rune) bool {
		return r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == utf8.RuneError
	})
}

// encodeYAML writes one pair canonically.
func encodeYAML(key, value *yaml.Node) (string, error) {
	pair := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{bare(key), bare(value)}}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(pair); err != nil {
		return "", err
	}
	return out.String(), enc.Close()
}

// bare is n without comments, which would wander when keys are written anew.
func bare(n *yaml.Node) *yaml.Node {
	c := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value}
	for _, child := range n.Content {
		c.Content = append(c.Content, bare(child))
	}
	return c
}

// FormatTask writes a task canonically: known keys in a fixed order, then the
// others, then the body. ParseTask reads the same task back.
func FormatTask(t Task) ([]byte, error) {
	front := &yaml.Node{Kind: yaml.MappingNode}
	add := func(key string, value any) error {
		var k, v yaml.Node
		if err := errors.Join(k.Encode(key), v.Encode(value)); err != nil {
			return err
		}
		front.Content = append(front.Content, &k, &v)
		return nil
	}
	err := add("title", t.Title)
	if t.Priority != DefaultPriority {
		err = errors.Join(err, add("priority", t.Priority))
	}
	for _, list := range []struct {
		key    string
		values []string
	}{{"paths", t.Paths}, {"after", t.After}, {"acceptance", t.Acceptance}} {
		if len(list.values) > 0 {
			err = errors.Join(err, add(list.key, list.values))
		}
	}
	if t.Size != "" {
		err = errors.Join(err, add("size", t.Size))
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(err, enc.Encode(front), enc.Close()); err != nil {
		return nil, fmt.Errorf("write task %q: %w", t.ID, err)
	}
	text := bytes.NewBufferString("---\n" + out.String())
	for _, extra := range t.Extra {
		text.WriteString(extra.YAML)
	}
	text.WriteString("---\n")
	if body := strings.Trim(t.Body, "\n"); body != "" {
		text.WriteString("\n" + body + "\n")
	}
	back, err := ParseTask(t.ID, text.Bytes())
	if err != nil {
		return nil, err
	}
	if back.Title != t.Title || !slices.Equal(back.After, t.After) || len(back.Extra) != len(t.Extra) {
		return nil, fmt.Errorf("write task %q: it does not read back as given", t.ID)
	}
	return text.Bytes(), nil
}
