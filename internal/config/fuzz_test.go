package config

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzParse holds that nothing panics, that an error tells where, and that
// what was read is usable: no reader has to check it again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", whole, "checks: none", "green: x", "a: &a [*a]", "? [a]: b", "!!map {}", "checks: [{name: a, run: b, report: 'junit:**/*.xml'}]",
		"queue: {policy: gated}", "agents: {caches: {npm: private}, roles: {judge: {effort: low}}}", "green: {schedule: 'TZ=UTC 1-5/2 * * jan sun'}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			bad, ok := errors.AsType[*Error](err)
			if !ok || len(bad.Faults) == 0 || bad.Error() == "" {
				t.Fatalf("Parse: %v, want an *Error with faults", err)
			}
			for _, fault := range bad.Faults {
				if fault.Problem == "" || fault.Line < 0 {
					t.Errorf("fault %+v says nothing", fault)
				}
			}
			return
		}
		again, err := Parse(data)
		if err != nil || !cmp.Equal(c, again) {
			t.Errorf("read again: %v\n%s", err, cmp.Diff(c, again))
		}
		if c.Main == c.Green.Branch || c.Main == "" || c.Green.Branch == "" || c.Queue.Slots < 1 || c.Agents.Workers < 1 {
			t.Errorf("unusable: %+v", c)
		}
		if len(c.Smoke()) != len(c.Queue.Smoke) {
			t.Errorf("smoke %q of %v", c.Queue.Smoke, c.Checks)
		}
		for _, k := range c.Checks {
			if k.Name == "" || (k.Run == "") == (k.Remote == "") || k.Timeout <= 0 || len(k.Def()) != 16 {
				t.Errorf("unusable check %+v", k)
			}
		}
	})
}
