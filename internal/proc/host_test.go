package proc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHost(t *testing.T) {
	t.Parallel()
	h := NewHost([]string{"A=1", "B=2", "A=3", "ODD", "=C:", "E=", "F=x=y"})
	if got := h.Get("A") + h.Get("F") + h.Get("ODD") + h.Get("none"); got != "3x=y" {
		t.Errorf("got %q", got)
	}
	if diff := cmp.Diff([]string{"E=", "A=3"}, h.Only("E", "none", "A")); diff != "" {
		t.Error(diff)
	}
	changed := h.With("A=9", "N=1")
	if h.Get("A") != "3" || h.Get("N") != "" || changed.Get("A") != "9" || changed.Get("N") != "1" {
		t.Error("With did not copy")
	}
	h.At("nothing happens")
	var seen []string
	h.Fault = func(label string) { seen = append(seen, label) }
	h.With("X=1").At("here")
	if diff := cmp.Diff([]string{"here"}, seen); diff != "" {
		t.Error(diff)
	}
	var zero Host
	if zero.Get("A") != "" || zero.With("A=1").Get("A") != "1" {
		t.Error("the zero Host does not work")
	}
}
