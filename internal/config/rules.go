package config

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a policy means the same on a machine without zone files
)

const defaultTimeout = 15 * time.Minute

// text is one line of anything.
func text(s string) (string, error) {
	if strings.TrimSpace(s) == "" {
		return "", refuse("", "is empty")
	}
	if strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return "", refuse("", "%q holds a control character", s)
	}
	return s, nil
}

// word is text without white space.
func word(s string) (string, error) {
	if strings.ContainsAny(s, " \t") {
		return "", refuse("", "%q holds a space", s)
	}
	return text(s)
}

// command is a shell command of any number of lines.
func command(s string) (string, error) {
	if strings.TrimSpace(s) == "" {
		return "", refuse("give it a shell command", "is empty")
	}
	return argument(s)
}

// argument is anything that a process can be given.
func argument(s string) (string, error) {
	if strings.ContainsRune(s, 0) {
		return "", refuse("", "holds a NUL")
	}
	return s, nil
}

// checkName keeps to what a trailer, a file name and a cache key can hold.
func checkName(s string) (string, error) {
	const hint = "letters, digits, '.', '_' and '-', at most 100, as in unit-tests"
	if s == "" {
		return "", refuse(hint, "is empty")
	}
	odd := strings.ContainsFunc(s, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("._-", c)
	})
	if odd || strings.Trim(s[:1], ".-") == "" || len(s) > 100 {
		return "", refuse(hint, "%.120q is not a name", s)
	}
	return s, nil
}

func boolean(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, refuse("", "want true or false, not %q", s)
}

func oneOf(words ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		if slices.Contains(words, s) {
			return s, nil
		}
		return "", refuse(nearest(s, slices.Clone(words)), "want %s, not %q", strings.Join(words, " or "), s)
	}
}

func within(least, most int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return 0, refuse("", "want a whole number from %d to %d, not %q", least, most, s)
		}
		return n, nil
	}
}

func duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil && d > 0 {
		return d, nil
	}
	hint := "as in 90s, 15m or 2h"
	if _, err := strconv.ParseUint(s, 10, 64); err == nil {
		hint = "add a unit, as in " + s + "s"
	}
	return 0, refuse(hint, "%q is not a duration above zero", s)
}

// bound is a duration, or 0 for none.
func bound(s string) (time.Duration, error) {
	if s == "0" {
		return 0, nil
	}
	return duration(s)
}

// moment is a time, or a day, which is meant to its end in UTC.
func moment(s string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at.UTC(), nil
	}
	day, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return time.Time{}, refuse("as in 2030-01-31 or 2030-01-31T12:00:00Z", "%q is not a day or time", s)
	}
	return day.AddDate(0, 0, 1), nil
}

// size is a number of bytes: 5MiB, 64KiB, 1.5GB, 4096.
func size(s string) (int64, error) {
	units := []string{"KiB", "MiB", "GiB", "TiB", "kB", "KB", "MB", "GB", "TB", "B"}
	factors := []float64{1 << 10, 1 << 20, 1 << 30, 1 << 40, 1e3, 1e3, 1e6, 1e9, 1e12, 1}
	if n, ok := scaled(s, units, factors); ok {
		return n, nil
	}
	return 0, refuse("as in 64KiB, 5MiB or 2GiB", "%q is not a size above zero", s)
}

// Count reads a number of things as the policy writes it: 2M, 500k, 128000.
func Count(s string) (int64, error) {
	if n, ok := scaled(s, []string{"k", "K", "M", "G"}, []float64{1e3, 1e3, 1e6, 1e9}); ok {
		return n, nil
	}
	return 0, refuse("as in 128000, 500k or 2M", "%q is not a count above zero", s)
}

func scaled(s string, units []string, factors []float64) (int64, bool) {
	factor := 1.0
	for i, unit := range units {
		if number, ok := strings.CutSuffix(s, unit); ok {
			s, factor = strings.TrimRight(number, " "), factors[i]
			break
		}
	}
	n, ok := decimal(s)
	if n *= factor; !ok || n < 1 || n > 1<<53 {
		return 0, false
	}
	return int64(n), true
}

// decimal reads 12 and 1.5, and none of the other things that are numbers to Go.
func decimal(s string) (float64, bool) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil && !math.IsInf(n, 0)
}

func percent(s string) (float64, error) {
	number, ok := strings.CutSuffix(s, "%")
	n, isNumber := decimal(strings.TrimRight(number, " "))
	if ok && isNumber && n <= 100 {
		return n / 100, nil
	}
	hint := "as in 25%"
	if isNumber && !ok && n <= 100 {
		if n < 1 {
			n *= 100
		}
		hint = fmt.Sprintf("as in %g%%", n)
	}
	return 0, refuse(hint, "want a percentage from 0%% to 100%%, not %q", s)
}

func money(s string) (float64, error) {
	n, ok := decimal(s)
	if !ok {
		return 0, refuse("as in 200 or 1.25", "want an amount of USD, not %q", s)
	}
	return n, nil
}

// processors is how much processor time may be used at once: 0.5, 2.
func processors(s string) (float64, error) {
	n, ok := decimal(s)
	if !ok || n < 0.01 {
		return 0, refuse("as in 0.5 or 2", "want a number of processors from 0.01 up, not %q", s)
	}
	return n, nil
}

// variable is the name of an environment variable.
func variable(s string) (string, error) {
	if odd := strings.ContainsFunc(s, func(c rune) bool {
		return c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9')
	}); odd || s == "" {
		return "", refuse("as in CODEX_API_KEY: the name, not the value", "%q is no name of a variable", s)
	}
	return s, nil
}

// homePath is a file or directory below a home.
func homePath(s string) (string, error) {
	if !filepath.IsLocal(s) || s == "." {
		return "", refuse("as in .codex/auth.json", "%q is not a path below the home", s)
	}
	return argument(s)
}

func report(s string) (string, error) {
	if pattern, ok := strings.CutPrefix(s, "junit:"); ok {
		if _, err := glob(pattern); err != nil {
			return "", err
		}
		return s, nil
	}
	if s == "junit" {
		return "", refuse("as in junit:reports/**/*.xml", "junit wants the files")
	}
	if slices.Contains([]string{"none", "go-json", "tap"}, s) {
		return s, nil
	}
	return "", refuse(nearest(s, []string{"none", "go-json", "junit:GLOB", "tap"}), "want none, go-json, junit:GLOB or tap, not %q", s)
}

// glob is what Match takes.
func glob(s string) (string, error) {
	if _, err := word(strings.ReplaceAll(s, " ", "_")); err != nil {
		return "", err
	}
	if strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") {
		return "", refuse("paths begin at the top of the repository: write "+strconv.Quote(strings.TrimLeft(s, "./")), "%q begins elsewhere", s)
	}
	if strings.HasSuffix(s, "/") {
		return "", refuse("write "+strconv.Quote(s+"**"), "%q ends in a slash", s)
	}
	for segment := range strings.SplitSeq(s, "/") {
		if _, err := path.Match(segment, ""); err != nil {
			return "", refuse("a [ wants its ], a \\ wants what it quotes", "%q is not a glob", s)
		}
		if segment == "" || segment == "." || segment == ".." {
			return "", refuse("", "%q holds the path segment %q", s, segment)
		}
		if segment != "**" && strings.Contains(segment, "**") {
			return "", refuse("as in docs/** or **/*.pem", "%q has ** beside other text", s)
		}
	}
	return s, nil
}

// branchName holds git's rules for a branch, and keeps off our own.
func branchName(s string) (string, error) {
	odd := strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f || strings.ContainsRune(`~^:?*[\`, c) })
	if odd || s == "" || s == "@" || s == "HEAD" || s[0] == '-' || strings.HasSuffix(s, ".") ||
		strings.Contains(s, "..") || strings.Contains(s, "@{") || len(s) > 200 {
		return "", refuse("", "%.220q cannot be a branch", s)
	}
	for segment := range strings.SplitSeq(s, "/") {
		if segment == "" || segment[0] == '.' || strings.HasSuffix(segment, ".lock") {
			return "", refuse("", "%q cannot be a branch", s)
		}
	}
	if strings.HasPrefix(s, "refs/") {
		return "", refuse("write only the branch's name", "%q is a full ref", s)
	}
	if strings.HasPrefix(s, "queue/") {
		return "", refuse("take a name outside queue/", "%q would be an entry of the queue", s)
	}
	return s, nil
}

// signer is a line of an allowed signers file: principal, key type, key.
func signer(s string) (string, error) {
	const hint = "as in ops@example.com ssh-ed25519 AAAA…, from the .pub file"
	f := strings.Fields(s)
	if len(f) < 3 {
		return "", refuse(hint, "%q lacks a principal, a key type or a key", s)
	}
	blob, err := base64.StdEncoding.DecodeString(f[2])
	if err != nil || len(blob) < 4 {
		return "", refuse(hint, "%q is not a public key", f[2])
	}
	n := binary.BigEndian.Uint32(blob)
	if int64(n) > int64(len(blob)-4) || string(blob[4:4+n]) != f[1] {
		return "", refuse(hint, "the key of %q is not of the type %q", f[0], f[1])
	}
	return text(s)
}

func serverURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", refuse("as in https://api.example.com/v1", "%q is not the address of a server", s)
	}
	if u.User != nil {
		return "", refuse("take the key from the environment", "holds a user or password")
	}
	return s, nil
}
