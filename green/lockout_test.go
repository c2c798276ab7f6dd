package green_test

import (
	"path/filepath"
	"strings"
	"testing"

	"greenward/green"
	"greenward/internal/git"
)

func TestAPolicyThatLocksThePromoterOutIsNotPromotedUnlessAPersonSaysSo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.good("a")
	p.cycle()
	before := p.tip("refs/heads/green")
	other, err := git.LoadKey(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	listing := func(signers ...string) map[string]string {
		return map[string]string{".greenward.yml": strings.Replace(policyText, "prefix]}", "prefix], signers: [\""+strings.Join(signers, `", "`)+"\"]}", 1)}
	}
	at := p.commit("only others", listing("ops@example.com "+other.Public()))
	r := p.cycle()
	if r.Action != green.ActionHold || *r.Hold != green.ReasonKey || p.tip("refs/heads/green") != before {
		t.Fatalf("got %+v, want green held before a policy that it could not follow up", r)
	}
	if !containsText(r.Alerts, "ssh-ed25519") || !containsText(r.Alerts, "policy accept "+string(at)) {
		t.Errorf("alerts %q tell no cure", r.Alerts)
	}
	p.commit("and this hub", listing("ops@example.com "+other.Public(), "hub "+p.engine.Signer.Public()))
	if r = p.cycle(); !r.Promoted {
		t.Fatalf("got %+v, want a promotion: this hub is listed", r)
	}
	at = p.commit("over to the other", listing("ops@example.com "+other.Public()))
	if r = p.cycle(); r.Promoted {
		t.Fatalf("got %+v, want a hold again", r)
	}
	if err := p.engine.Accept(t.Context(), green.Steering{Commit: at}); err != nil {
		t.Fatal(err)
	}
	if r = p.cycle(); !r.Promoted {
		t.Errorf("got %+v, want the promotion that a person accepted", r)
	}
}

func TestExcludeOfWhatGreenHasIsRefusedWithTheCure(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	in := p.good("a")
	p.cycle()
	err := p.engine.Exclude(t.Context(), green.Steering{Commit: in})
	if err == nil || !strings.Contains(err.Error(), "green rollback") || !p.tip("refs/greenward/control").IsZero() {
		t.Errorf("err = %v, control %s; want a refusal, and no order", err, p.tip("refs/greenward/control"))
	}
	if err := p.engine.Exclude(t.Context(), green.Steering{Commit: p.good("b")}); err != nil {
		t.Error(err)
	}
}
