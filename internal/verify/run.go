package verify

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"greenward/internal/config"
	"greenward/internal/git"
)

// namespace keeps a ledger line's signature from being taken for another's.
const namespace = "greenward-ledger"

// maxLine bounds a ledger line; a longer one is malformed.
const maxLine = 64 << 10

// maxFailing bounds the names of failing tests in a line.
const maxFailing = 20

// Run is one line of the ledger: one run of one check on one tree.
type Run struct {
	Key      string    `json:"key"`
	Tree     git.Hash  `json:"tree"`   // without tasks/
	Commit   git.Hash  `json:"commit"` // what the note sits on
	Check    string    `json:"check"`
	Def      string    `json:"def"` // hash of the check's definition
	Run      string    `json:"run"` // unique to this run
	Verdict  Verdict   `json:"verdict"`
	Cause    Cause     `json:"cause,omitempty"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Runner   string    `json:"runner"`
	Tests    *int      `json:"tests"`             // executed; null when the check has no report
	Failing  []string  `json:"failing,omitempty"` // names of the tests that failed, at most maxFailing
	Why      string    `json:"why"`
	Sig      string    `json:"sig,omitempty"`
}

// Took is how long the run lasted.
func (r Run) Took() time.Duration { return r.Finished.Sub(r.Started) }

// topic is what evidence is about: equal topics share it.
type topic struct {
	on         git.Hash // tree without tasks/, or the commit of a check with history
	check, def string
}

func (t topic) key(run string) string {
	return strings.Join([]string{string(t.on), t.check, t.def, run}, "/")
}

// topicOf is the topic of a check on a subject whose tree is stripped already.
func topicOf(s Subject, check config.Check) topic {
	on := s.Tree
	if check.History {
		on = s.Commit
	}
	return topic{on: on, check: check.Name, def: check.Def()}
}

// topic reads the topic back from the key, which says whether it is the tree or
// the commit.
func (r Run) topic() (topic, error) {
	for _, on := range []git.Hash{r.Tree, r.Commit} {
		t := topic{on: on, check: r.Check, def: r.Def}
		if t.key(r.Run) == r.Key {
			return t, nil
		}
	}
	return topic{}, fmt.Errorf("key %q does not follow from the line's tree, commit, check, def and run", clip(r.Key))
}

func (r Run) valid() error {
	if _, err := git.ParseHash(string(r.Tree)); err != nil {
		return fmt.Errorf("tree: %w", err)
	}
	if _, err := git.ParseHash(string(r.Commit)); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	switch {
	case r.Check == "":
		return errors.New("check is empty")
	case r.Def == "" || strings.Contains(r.Def, "/"):
		return fmt.Errorf("def %q is not a hash", clip(r.Def))
	case r.Run == "" || strings.Contains(r.Run, "/"):
		return fmt.Errorf("run %q: a name without a slash is wanted", clip(r.Run))
	case !r.Verdict.known():
		return fmt.Errorf("verdict %q: passed, failed, broken or unknown is wanted", clip(string(r.Verdict)))
	}
	_, err := r.topic()
	return err
}

// Signed is the run with the signature of signer over its line.
func (r Run) Signed(signer git.Signer) (Run, error) {
	payload, err := r.payload()
	if err != nil {
		return Run{}, err
	}
	sig, err := signer.Sign(namespace, payload)
	if err != nil {
		return Run{}, fmt.Errorf("sign a ledger line for check %q: %w", r.Check, err)
	}
	r.Sig = sig
	return r, nil
}

// payload is the line without sig, which the signature covers.
func (r Run) payload() ([]byte, error) {
	r.Sig = ""
	r.Started, r.Finished = stamp(r.Started), stamp(r.Finished)
	r.Key = cmp.Or(r.Key, topic{r.Tree, r.Check, r.Def}.key(r.Run))
	if err := r.valid(); err != nil {
		return nil, fmt.Errorf("write a ledger line for check %q: %w", r.Check, err)
	}
	if r.Started.IsZero() || r.Finished.IsZero() {
		return nil, fmt.Errorf("write a ledger line for check %q: started and finished are required", r.Check)
	}
	data, err := marshal(r)
	if err == nil && len(data) > maxLine/2 {
		err = fmt.Errorf("%d bytes are too long for a line", len(data))
	}
	if err != nil {
		return nil, fmt.Errorf("write a ledger line for check %q: %w", r.Check, err)
	}
	return data, nil
}

// encode is the line without its newline. Without a sig it only steers.
func (r Run) encode() ([]byte, error) {
	payload, err := r.payload()
	if err != nil || r.Sig == "" {
		return payload, err
	}
	sig, err := marshal(r.Sig)
	if err != nil {
		return nil, fmt.Errorf("write a ledger line for check %q: %w", r.Check, err)
	}
	return fmt.Appendf(payload[:len(payload)-1], `,"sig":%s}`, sig), nil
}

// decode reads a line. Unknown members are allowed: they are covered by the
// signature all the same.
func decode(line []byte) (r Run, payload []byte, err error) {
	if len(line) > maxLine {
		return Run{}, nil, fmt.Errorf("longer than %d bytes", maxLine)
	}
	payload, sig, err := split(line)
	if err != nil {
		return Run{}, nil, err
	}
	if !utf8.Valid(payload) {
		return Run{}, nil, errors.New("not UTF-8")
	}
	if err := json.Unmarshal(payload, &r); err != nil {
		return Run{}, nil, fmt.Errorf("not a JSON object of a run: %w", err)
	}
	if r.Sig != "" {
		return Run{}, nil, errors.New("sig is not the last member")
	}
	if err := r.valid(); err != nil {
		return Run{}, nil, err
	}
	r.Sig = sig
	return r, payload, nil
}

// split separates a line from its signature without re-encoding either: the
// text ,"sig":" cannot stand inside a JSON string, where quotes are escaped.
func split(line []byte) (payload []byte, sig string, err error) {
	at := bytes.LastIndex(line, []byte(`,"sig":"`))
	if at < 0 {
		return line, "", nil
	}
	quoted, ok := bytes.CutSuffix(line[at+len(`,"sig":`):], []byte("}"))
	if !ok {
		return nil, "", errors.New("nothing may follow sig")
	}
	if sig, err = unquote(quoted); err != nil {
		return nil, "", fmt.Errorf("sig: %w", err)
	}
	return append(bytes.Clone(line[:at]), '}'), sig, nil
}

// unquote reads a JSON string. An armored signature has no other escape than
// that of a newline, which is read ten times as fast by itself.
func unquote(quoted []byte) (string, error) {
	if n := len(quoted); n >= 2 && quoted[0] == '"' && quoted[n-1] == '"' {
		plain := true
		for _, c := range quoted[1 : n-1] {
			plain = plain && c >= ' ' && c < 0x7f && c != '"'
		}
		inside := string(quoted[1 : n-1])
		if plain && strings.Count(inside, `\`) == strings.Count(inside, `\n`) && !strings.Contains(inside, `\\`) {
			return strings.ReplaceAll(inside, `\n`, "\n"), nil
		}
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return "", err
	}
	return s, nil
}

// rank orders runs with the same key, of which one counts: what says something
// about the tree before what does not, failure before pass.
func rank(v Verdict) int {
	switch v {
	case Failed:
		return 0
	case Passed:
		return 1
	case Broken:
		return 2
	case Unknown:
	}
	return 3
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// clip shortens foreign text for a message.
func clip(s string) string {
	if len(s) <= 80 {
		return s
	}
	end := 80
	for end > 76 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
