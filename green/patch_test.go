package green_test

import (
	"slices"
	"strings"
	"testing"

	"greenward/green"
	"greenward/green/accept"
	"greenward/internal/gittest"
	"greenward/internal/verify"
)

// A project whose tests are files of their own, which a list names.
const (
	mendRunner = `n=0; echo "1..$(wc -l < list)"
while read -r t; do n=$((n+1)); if sh "tests/$t.t"; then echo "ok $n - $t"; elif test $? = 77; then echo "ok $n - $t # skip"; else echo "not ok $n - $t"; bad=1; fi; done < list
exit ${bad:-0}
`
	mendPolicy = `checks:
  - {name: test, run: sh run.sh, report: tap}
  - {name: hidden, run: sh hidden/run.sh, hold_out: true}
queue: {slots: 1}
green: {repair: [agent], hold_out: ["hidden/**"]}
`
	mendTest   = ". ./answer.sh\ntest \"$answer\" = 42\n"
	mendBroken = "answer=41\n"
)

// mending is a hub whose green is well and whose main gives a wrong answer, with a fixup
// agent that makes some edits.
func mending(t *testing.T, policy string, edits map[string]string) (*place, *mender) {
	t.Helper()
	p := newPlace(t)
	p.commit("tests", map[string]string{
		".greenward.yml": policy, "run.sh": mendRunner, "list": "answer\nother\n", "answer.sh": "answer=42\n",
		"tests/answer.t": mendTest, "tests/other.t": ". ./answer.sh\ntest -n \"$answer\"\n",
		"hidden/run.sh": ". ./answer.sh\ntest \"$answer\" = 42\n",
	})
	p.real()
	m := &mender{repo: p.engine.Hub.Repo, edits: edits}
	p.engine.Fixer = m
	if r := p.step(); !r.Promoted {
		t.Fatalf("got %+v", r)
	}
	p.commit("break it", map[string]string{"answer.sh": mendBroken})
	return p, m
}

// tricks are edits that make the failing test pass, or seem to, and the rule by which
// each is refused: where there is a hold-out check, and where there is none.
func tricks() map[string]struct {
	edits         map[string]string
	with, without string
} {
	type trick = struct {
		edits         map[string]string
		with, without string
	}
	both := func(rule, path, text string) trick {
		return trick{map[string]string{path: text}, rule, rule}
	}
	return map[string]trick{
		"a deletes the test":        {map[string]string{"tests/answer.t": gittest.Deleted, "list": "other\n"}, accept.DeletedTest, accept.DeletedTest},
		"a drops it from the list":  {map[string]string{"list": "other\n"}, accept.HoldOutFails, accept.ExecutedLess},
		"b skips it":                {map[string]string{"tests/answer.t": "exit 77\n"}, accept.HoldOutFails, accept.NewlySkipped},
		"c edits the policy":        both(accept.Protected, ".greenward.yml", "checks: none\n"),
		"c edits a workflow":        both(accept.Protected, ".github/workflows/ci.yml", "x\n"),
		"c edits what a check runs": both(accept.Runner, "run.sh", "echo 1..2; echo ok 1 - answer; echo ok 2 - other\n"),
		"d wants the wrong answer":  {map[string]string{"tests/answer.t": strings.Replace(mendTest, "42", "41", 1)}, accept.HoldOutFails, accept.Expectation},
		"e looks where it runs":     {map[string]string{"answer.sh": "answer=41\nif test -d tests && test -z \"${CI+x}\" && test -n \"$n\"; then answer=42; fi\n"}, accept.StillFails, accept.StillFails},
		"f does not care":           {map[string]string{"tests/answer.t": mendTest + "true || true\n"}, accept.HoldOutFails, accept.Swallow},
	}
}

// TestG46EveryTrickIsRefusedByName has an agent try each trick: green does not move, main
// is asked for nothing, and the log counts the rule that met it.
func TestG46EveryTrickIsRefusedByName(t *testing.T) {
	t.Parallel()
	for _, heldOut := range []bool{true, false} {
		policy := mendPolicy
		if !heldOut {
			policy = strings.Replace(strings.Replace(policy, "  - {name: hidden, run: sh hidden/run.sh, hold_out: true}\n", "", 1), ", hold_out: [\"hidden/**\"]", "", 1)
		}
		for name, trick := range tricks() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p, m := mending(t, policy, trick.edits)
				before := p.tip("refs/heads/green")
				r := p.step()
				want := trick.without
				if heldOut {
					want = trick.with
				}
				met := slices.ContainsFunc(r.Refused, func(one accept.Refusal) bool { return one.Rule == want })
				if r.Promoted || m.calls != 2 || !met || p.tip("refs/heads/green") != before || p.tip("refs/heads/queue/") != "" {
					t.Fatalf("hold-out %v: got %+v after %d calls, want %s", heldOut, r, m.calls, want)
				}
				if !slices.ContainsFunc(m.last.Refused, func(why string) bool { return strings.Contains(why, want) }) {
					t.Errorf("the agent was told %q of its first patch", m.last.Refused)
				}
				y, err := p.engine.Why(t.Context(), "")
				if err != nil || y.Refused[want] != 2 {
					t.Errorf("got %v, %v, want both patches counted", y.Refused, err)
				}
				p.seesNoHoldOut(m, heldOut)
				if judged := []string{accept.ExecutedLess, accept.NewlySkipped, accept.Expectation, accept.Swallow}; slices.Contains(judged, want) {
					p.keptRefused(trick.edits)
				}
			})
		}
	}
}

// keptRefused holds that a patch which was judged and refused can be looked at.
func (p *place) keptRefused(edits map[string]string) {
	p.Helper()
	refs := strings.Fields(p.git("for-each-ref", "--format=%(refname)", "refs/greenward/rescue/green/"))
	if len(refs) == 0 {
		p.Fatal("the refused patch is kept nowhere")
	}
	for name, text := range edits {
		if got := p.git("show", refs[0]+":"+name); got != strings.TrimSpace(text) {
			p.Errorf("%s of the refused patch is %q, want %q", name, got, text)
		}
	}
}

// seesNoHoldOut holds that the agent is not shown what was held out.
func (p *place) seesNoHoldOut(m *mender, heldOut bool) {
	p.Helper()
	shown := slices.Contains(p.files(string(m.last.Tree)), "hidden/run.sh")
	told := slices.ContainsFunc(m.last.Failing, func(o verify.Outcome) bool { return o.Check == "hidden" })
	if shown == heldOut || told || m.last.Hidden != heldOut {
		p.Errorf("hold-out %v: shown %v, told %v, hidden %v", heldOut, shown, told, m.last.Hidden)
	}
}

// TestG46AnHonestPatchIsAccepted mends the cause: its test passes as often as the flake
// model asks for, the hold-out passes, nothing ran less, and it goes to green and main.
func TestG46AnHonestPatchIsAccepted(t *testing.T) {
	t.Parallel()
	p, m := mending(t, mendPolicy, map[string]string{"answer.sh": "answer=$((6 * 7))\n"})
	r := p.step()
	if !r.Promoted || r.Repair != green.RepairAgent || m.calls != 1 || len(r.Refused) != 0 || len(r.Repairs) != 1 {
		t.Fatalf("got %+v", r)
	}
	on := p.files("green")
	if !slices.Contains(on, "hidden/run.sh") || p.git("show", "green:answer.sh") != "answer=$((6 * 7))" {
		t.Errorf("green holds %v", on)
	}
	runs := 0
	for line := range strings.Lines(p.git("log", "-1", "--format=%(trailers:key=Check,valueonly)", "green")) {
		if strings.HasPrefix(line, "test passed") {
			runs++
			if strings.Contains(line, "runs=1\n") {
				t.Errorf("%q: once is not enough", line)
			}
		}
	}
	if runs != 1 {
		t.Errorf("%d lines of the check", runs)
	}
	queued := p.git("for-each-ref", "--format=%(trailers:key=Agent,valueonly)", "refs/heads/queue/")
	if strings.TrimSpace(queued) != "fixup-1" {
		t.Errorf("the repair for main is by %q", queued)
	}
}

// A patch that passes only sometimes is not taken for one that passes.
func TestG46AnUnreliablePatchIsRefused(t *testing.T) {
	t.Parallel()
	count := t.TempDir() + "/count"
	p, _ := mending(t, mendPolicy, map[string]string{"answer.sh": "echo >> " + count + "; answer=42; test $(($(wc -l < " + count + ") % 4)) -ne 0 || answer=41\n"})
	before := p.tip("refs/heads/green")
	r := p.step()
	if r.Promoted || !slices.ContainsFunc(r.Refused, func(one accept.Refusal) bool { return one.Rule == accept.StillFails || one.Rule == accept.HoldOutFails }) || p.tip("refs/heads/green") != before {
		t.Errorf("got %+v", r)
	}
}

// A patch that edits what was held out gets nowhere near it.
func TestG46HoldOutsCannotBeWritten(t *testing.T) {
	t.Parallel()
	p, _ := mending(t, mendPolicy, map[string]string{"tests/answer.t": "true\n", "hidden/run.sh": "exit 0\n"})
	if r := p.step(); r.Promoted || !slices.ContainsFunc(r.Refused, func(one accept.Refusal) bool { return one.Rule == accept.HoldOut }) {
		t.Errorf("got %+v", r)
	}
}
