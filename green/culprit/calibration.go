package culprit

import (
	"fmt"
	"math"
)

// Claim is a commit that was blamed, how sure that was, and what became of it.
type Claim struct {
	Confidence  float64
	Right, Open bool // Open: nobody knows yet
}

// Calibration compares how sure blames were with how often they were right.
type Calibration struct {
	Blamed  int     `json:"blamed"` // those that it is known of
	Right   int     `json:"right"`
	Open    int     `json:"open"`    // those that it is not known of yet
	Claimed float64 `json:"claimed"` // mean confidence of the blamed
	Drift   bool    `json:"drift"`   // more were wrong than chance explains
}

const (
	window  = 50  // the newest claims count
	outside = .01 // how unlikely so many wrong ones have to be
	leastly = 2   // wrong ones: one alone is nobody's drift
)

// Calibrate weighs claims, the newest last.
func Calibrate(claims []Claim) Calibration {
	var c Calibration
	var known []Claim
	for _, one := range claims {
		if one.Open {
			c.Open++
			continue
		}
		known = append(known, one)
	}
	known = known[max(len(known)-window, 0):]
	expected := 0.0
	for _, one := range known {
		c.Blamed++
		if one.Right {
			c.Right++
		}
		c.Claimed += one.Confidence
		expected += 1 - one.Confidence
	}
	if c.Blamed == 0 {
		return c
	}
	c.Claimed /= float64(c.Blamed)
	wrong := c.Blamed - c.Right
	c.Drift = wrong >= leastly && tail(expected, wrong) < outside
	return c
}

// tail is the chance of so many events or more where some are expected (Poisson).
func tail(expected float64, events int) float64 {
	below, term := 0.0, math.Exp(-expected)
	for k := range events {
		below += term
		term *= expected / float64(k+1)
	}
	return 1 - below
}

// String says it in a sentence without its stop.
func (c Calibration) String() string {
	text := fmt.Sprintf("of %d commits blamed at %.1f %%, %d were right", c.Blamed, 100*c.Claimed, c.Right)
	if c.Drift {
		text += ", which is out of band: main is asked for no revert until a person has looked"
	}
	return text
}
