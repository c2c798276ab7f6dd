package green

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"greenward/internal/git"
)

// keysOf picks the keys out of the lines of an allowed signers file.
func keysOf(lines []string) []string {
	keys := []string{}
	for _, line := range lines {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if k := keyOf(line); k != "" {
			keys = append(keys, k)
		}
	}
	return keys
}

// keyOf is type and base64 of a key in a line that may hold more.
func keyOf(line string) string {
	fields := strings.Fields(line)
	for i, f := range fields {
		if (strings.HasPrefix(f, "ssh-") || strings.HasPrefix(f, "ecdsa-") || strings.HasPrefix(f, "sk-")) && i+1 < len(fields) {
			return f + " " + fields[i+1]
		}
	}
	return ""
}

// Signers is an allowed signers file of all keys that green's history trusts: the
// first promotion's, and those that its policies list.
func Signers(repo *git.Repo, tip git.Hash) (string, error) {
	v := &verifier{repo: repo}
	if !v.walk(tip) {
		return "", fmt.Errorf("list the signers: %s", strings.Join(v.faults, "; "))
	}
	first := v.chain[0].Commit
	key, err := git.VerifySSH(first.Signature, "git", first.SignedPayload())
	if err != nil {
		return "", fmt.Errorf("list the signers: %w", err)
	}
	keys := []string{keyOf(key)}
	for _, p := range v.chain {
		if pol, err := readPolicy(repo, p.Commit.Tree); err == nil { // a malformed policy lists nobody
			keys = append(keys, keysOf(pol.Green.Signers)...)
		}
	}
	var out strings.Builder
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		out.WriteString(git.AllowedSigners("greenward@localhost", k))
	}
	return out.String(), nil
}

// Trusted lists the keys whose promotions are green's and whose orders count: those that
// green's policy lists; where it lists none, the first promotion's. None: there is no
// promotion, or nothing tells.
func Trusted(repo *git.Repo, tip git.Hash) ([]string, error) {
	if tip.IsZero() {
		return nil, nil
	}
	c, err := repo.Commit(tip)
	if errors.Is(err, git.ErrNotFound) {
		return nil, nil // what is missing is told by who needs it; landing goes on
	}
	if err != nil {
		return nil, fmt.Errorf("read green: %w", err)
	}
	if p, err := readPolicy(repo, c.Tree); err == nil { // a malformed policy lists nobody
		if keys := keysOf(p.Green.Signers); len(keys) > 0 {
			return keys, nil
		}
	}
	chain := &verifier{repo: repo}
	if !chain.walk(tip) {
		return nil, nil
	}
	first := chain.chain[0].Commit
	key, err := git.VerifySSH(first.Signature, "git", first.SignedPayload())
	if err != nil {
		return nil, nil //nolint:nilerr // nothing tells which key to trust
	}
	return []string{keyOf(key)}, nil
}

// distrust says why green's history would not trust a promotion by this hub's
// key; empty: it does. The rule is that of Verify.
func (c *cycle) distrust() string {
	if c.last == nil {
		return ""
	}
	mine := keyOf(c.e.Signer.Public())
	allowed, by := []string{}, "green's policy"
	if c.old != nil {
		allowed = keysOf(c.old.Green.Signers)
	}
	if len(allowed) == 0 {
		by = "the first promotion"
		chain := &verifier{repo: c.repo}
		if !chain.walk(c.green) {
			return "green's history cannot be read: " + chain.faults[0]
		}
		first := chain.chain[0].Commit
		key, err := git.VerifySSH(first.Signature, "git", first.SignedPayload())
		if err != nil {
			return "the first promotion's signature is invalid, so nothing tells which key to trust"
		}
		allowed = []string{keyOf(key)}
	}
	if slices.Contains(allowed, mine) {
		return ""
	}
	return fmt.Sprintf("this hub signs with %s, which %s does not list: put the hub's old key file back at %q, or have this key listed under green.signers by a promotion with the old one",
		mine, by, filepath.Join(c.e.Hub.State(), "key"))
}

// locksOut says that a policy which is to be promoted trusts others, and not this hub's
// key, so that this hub could promote nothing after it; empty: it does not.
func (c *cycle) locksOut(own policy) string {
	mine := keyOf(c.e.Signer.Public())
	if listed := keysOf(own.Green.Signers); len(listed) == 0 || slices.Contains(listed, mine) {
		return ""
	}
	return fmt.Sprintf("green.signers of main's policy lists others and not this hub's key, so nothing could be promoted here after it: add %q on main, or, where another hub is to promote from here on, say `%s%s`",
		strings.TrimSpace(git.AllowedSigners("greenward@localhost", mine)), acceptOrder, c.main)
}
