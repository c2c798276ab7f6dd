package culprit_test

import (
	"slices"
	"strings"
	"testing"

	"greenward/green/culprit"
)

func claims(right, wrong, open int, confidence float64) []culprit.Claim {
	all := slices.Repeat([]culprit.Claim{{Confidence: confidence, Right: true}}, right)
	all = append(all, slices.Repeat([]culprit.Claim{{Confidence: confidence}}, wrong)...)
	return append(all, slices.Repeat([]culprit.Claim{{Confidence: confidence, Open: true}}, open)...)
}

func TestCalibrationDriftsWhereMoreAreWrongThanClaimed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		claims []culprit.Claim
		drift  bool
	}{
		{"none", nil, false},
		{"all right", claims(200, 0, 3, .99), false},
		{"one wrong", claims(3, 1, 0, .99), false},
		{"as claimed", claims(48, 2, 0, .96), false},
		{"two of five", claims(3, 2, 0, .99), true},
		{"five of fifty", claims(45, 5, 0, .99), true},
		{"long ago", append(claims(0, 9, 0, .99), claims(50, 0, 0, .99)...), false},
		{"not known yet", claims(0, 0, 40, .99), false},
	} {
		c := culprit.Calibrate(tt.claims)
		if c.Drift != tt.drift || strings.Contains(c.String(), "out of band") != tt.drift || c.Blamed > 50 {
			t.Errorf("%s: got %+v (%s)", tt.name, c, c)
		}
	}
}
