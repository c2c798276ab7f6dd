package green

import (
	"fmt"
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
