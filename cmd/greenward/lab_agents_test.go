package main

import (
	"errors"
	"testing"

	"greenward/internal/lab/crowd"
)

func TestAMissedFigureIsTheExitCode(t *testing.T) {
	figures := []crowd.Figure{{What: "one", Met: true}, {What: "two", Met: true}}
	if err := allMet(figures); err != nil {
		t.Error(err)
	}
	figures[1].Met = false
	if err := allMet(figures); !errors.Is(err, errNo) {
		t.Errorf("%v of a missed figure", err)
	}
}
