package config

import (
	"testing"
	"time"
)

func TestEmbargo(t *testing.T) {
	t.Parallel()
	at := func(s string) time.Time {
		t.Helper()
		when, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	weekend := []string{"Fri 13:00 - Mon 09:00 Europe/Berlin"}
	tests := []struct {
		name    string
		windows []string
		now     string
		until   string // empty: open
	}{
		{"before", weekend, "2026-03-20T11:59:59Z", ""},
		{"its first second", weekend, "2026-03-20T12:00:00Z", "2026-03-23T08:00:00Z"},
		{"in it", weekend, "2026-03-21T00:00:00Z", "2026-03-23T08:00:00Z"},
		{"its end", weekend, "2026-03-23T08:00:00Z", ""},
		{"summer time begins within", weekend, "2026-03-28T00:00:00Z", "2026-03-30T07:00:00Z"},
		{"summer time ends within", weekend, "2026-10-24T00:00:00Z", "2026-10-26T08:00:00Z"},
		{"within a day", []string{"Tue 09:00 - Tue 10:00 UTC"}, "2026-03-24T09:30:00Z", "2026-03-24T10:00:00Z"},
		{"most of a week, seen from its last day", []string{"Tue 10:00 - Tue 09:00 UTC"}, "2026-03-24T08:30:00Z", "2026-03-24T09:00:00Z"},
		{"two that touch", append([]string{"Mon 08:00 - Tue 09:00 UTC"}, weekend...), "2026-03-21T00:00:00Z", "2026-03-24T09:00:00Z"},
		{"all week", []string{"Mon 00:00 - Thu 00:00 UTC", "Thu 00:00 - Mon 00:00 UTC"}, "2026-03-24T09:00:00Z", "2026-04-02T00:00:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			until, why := Queue{Embargo: tt.windows}.Embargoed(at(tt.now))
			switch {
			case tt.until == "" && why != "":
				t.Errorf("closed until %s: %s", until, why)
			case tt.until != "" && !until.Equal(at(tt.until)):
				t.Errorf("until %s (%s), want %s", until, why, tt.until)
			}
		})
	}
}
