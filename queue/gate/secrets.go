package gate

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"greenward/internal/config"
	"greenward/internal/git"
)

// Kinds of secrets that tests hold, too.
const (
	privateKey = "a private key"
	awsKey     = "an AWS access key"
)

// secret is the form of one kind of secret.
type secret struct {
	kind  string
	hints []string // no match without one of these; "": not tried
	form  string   // its first group is the secret
	least int      // different characters that a real one has at least
}

// secrets that are told by their form with next to no false alarms. A kind whose
// form is common text is not here: a gate that refuses honest work is none.
func secretForms() []secret {
	return []secret{
		{privateKey, []string{"PRIVATE KEY"}, `-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr])+(?:[A-Za-z-]+: .*\s+)*([A-Za-z0-9+/=]{32,})`, 10},
		{awsKey, []string{"AKIA", "ASIA"}, `\b((?:AKIA|ASIA)[A-Z2-7]{16})\b`, 8},
		{"an AWS secret key", []string{"aws_secret_access_key", "AWS_SECRET_ACCESS_KEY"}, `(?i)aws_secret_access_key["']?\s*[:=]\s*["']?([A-Za-z0-9/+]{40})\b`, 14},
		{"a GitHub token", []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, `\b(gh[pousr]_[A-Za-z0-9]{36})\b`, 12},
		{"a GitHub token", []string{"github_pat_"}, `\b(github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b`, 16},
		{"a GitLab token", []string{"glpat-"}, `\b(glpat-[A-Za-z0-9_-]{20,})\b`, 12},
		{"a Slack token", []string{"xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-"}, `\b(xox[baprs]-[0-9]{8,}-[0-9A-Za-z-]{20,})\b`, 12},
		{"a Slack webhook", []string{"hooks.slack.com/services/T"}, `(hooks\.slack\.com/services/T[A-Z0-9]{8,}/B[A-Z0-9]{8,}/[A-Za-z0-9]{24})\b`, 16},
		{"an OpenAI key", []string{"T3BlbkFJ"}, `\b(sk-[A-Za-z0-9_-]{20,}T3BlbkFJ[A-Za-z0-9_-]{20,})`, 16},
		{"an OpenAI key", []string{"sk-proj-", "sk-svcacct-"}, `\b(sk-(?:proj|svcacct)-[A-Za-z0-9_-]{40,})`, 16},
		{"an OpenAI key", []string{"sk-"}, `\b(sk-[A-Za-z0-9]{48})\b`, 16},
		{"an Anthropic key", []string{"sk-ant-"}, `\b(sk-ant-[a-z]+[0-9]{2}-[A-Za-z0-9_-]{60,})`, 16},
		{"a Google API key", []string{"AIza"}, `\b(AIza[A-Za-z0-9_-]{35})\b`, 14},
		{"a Stripe key", []string{"k_live_"}, `\b([sr]k_live_[A-Za-z0-9]{24,})\b`, 12},
		{"an npm token", []string{"npm_"}, `\b(npm_[A-Za-z0-9]{36})\b`, 12},
	}
}

// Secret is what a commit adds that looks like a secret; nil: nothing does. A merge is
// held against its first parent.
func (g *Gate) Secret(rules config.Gate, commit git.Hash) (*Finding, error) {
	c, err := g.Repo.Commit(commit)
	if err != nil {
		return nil, fmt.Errorf("look for secrets: %w", err)
	}
	var before git.Hash
	if parent := c.Parent(); !parent.IsZero() {
		if before, err = g.Repo.TreeOf(parent); err != nil {
			return nil, fmt.Errorf("look for secrets in %s: %w", commit.Short(), err)
		}
	}
	d := differ{repo: g.Repo, plain: true}
	if err := d.folder(before, c.Tree, ""); err != nil {
		return nil, fmt.Errorf("look for secrets in %s: %w", commit.Short(), err)
	}
	l := landing{Gate: g, rules: rules}
	for _, one := range d.changes {
		if !plainFile(one.now) || fixture(one.path) {
			continue
		}
		size, err := g.Repo.Size(one.now.Hash)
		if err != nil {
			return nil, fmt.Errorf("look for secrets in %s: %w", commit.Short(), err)
		}
		if size > maxScan {
			continue
		}
		f := file{change: one}
		if f.now, err = g.Repo.Blob(one.now.Hash); err != nil {
			return nil, fmt.Errorf("look for secrets in %s: %w", commit.Short(), err)
		}
		old, err := l.old(one)
		if err != nil {
			return nil, fmt.Errorf("look for secrets in %s: %w", commit.Short(), err)
		}
		f.before = func() []byte { return old }
		if l.secrets(f); len(l.found) > 0 {
			return &l.found[0], nil
		}
	}
	return nil, nil
}

// secrets finds keys and tokens that a file gained.
func (l *landing) secrets(f file) {
	if l.skipped("secrets", f.path) {
		return
	}
	kind := ""
	for _, s := range secretForms() {
		if (s.kind == privateKey || s.kind == awsKey) && inTest(f.path) {
			continue // tests of TLS, ssh and request signing hold keys that open nothing
		}
		if s.in(f) {
			kind = s.kind
			break
		}
	}
	if kind == "" && envFile(f.path) && envSecret(f) {
		kind = "a password or token"
	}
	if kind != "" {
		l.find("secrets", f.path, "holds what looks like %s: take it out of every commit of the change, and revoke it, for it has left your machine", kind)
	}
}

// in reports whether a file holds such a secret that it did not hold before.
func (s secret) in(f file) bool {
	if !slices.ContainsFunc(s.hints, func(hint string) bool { return bytes.Contains(f.now, []byte(hint)) }) {
		return false
	}
	for _, m := range regexp.MustCompile(s.form).FindAllSubmatch(f.now, -1) {
		if text := m[1]; variety(text) >= s.least && !sample(text) && !bytes.Contains(f.before(), text) {
			return true
		}
	}
	return false
}

// variety is how many different characters a text has.
func variety(text []byte) int {
	var seen [256]bool
	n := 0
	for _, c := range text {
		if !seen[c] {
			seen[c] = true
			n++
		}
	}
	return n
}

// sample reports whether a secret says of itself that it is none.
func sample(text []byte) bool {
	lower := bytes.ToLower(text)
	return slices.ContainsFunc([]string{"example", "xxxx", "your", "placeholder", "redacted", "dummy", "fake"}, func(word string) bool {
		return bytes.Contains(lower, []byte(word))
	})
}

func inTest(name string) bool {
	base := strings.ToLower(path.Base(name))
	if strings.Contains(base, "_test.") || strings.Contains(base, ".test.") || strings.Contains(base, ".spec.") || strings.HasPrefix(base, "test_") {
		return true
	}
	return slices.ContainsFunc(strings.Split(strings.ToLower(path.Dir(name)), "/"), func(part string) bool {
		return part == "test" || part == "tests" || part == "__tests__" || part == "spec" || strings.HasSuffix(part, "test")
	})
}

// envFile reports whether a file is what programs read their secrets from.
func envFile(name string) bool {
	base := path.Base(name)
	return base == ".env" || base == ".env.local" || base == ".env.production" || base == ".envrc"
}

// envSecret finds an assignment of a secret's name that a file gained.
func envSecret(f file) bool {
	assigned := regexp.MustCompile(`(?m)^\s*(?:export\s+)?([A-Z0-9_]*(?:SECRET|TOKEN|PASSWORD|PASSWD|API_?KEY|PRIVATE_KEY)[A-Z0-9_]*)\s*=\s*["']?([^\s"'$<{]{12,})`)
	for _, m := range assigned.FindAllSubmatch(f.now, -1) {
		if value := m[2]; variety(value) >= 8 && !sample(value) && !bytes.Contains(f.before(), value) {
			return true
		}
	}
	return false
}
