package config

import (
	"testing"
	"time"
)

func TestSizesAndCounts(t *testing.T) {
	for in, want := range map[string]int64{
		"5MiB": 5 << 20, "2GiB": 2 << 30, "64KiB": 64 << 10, "4096": 4096, "1.5kB": 1500, "10 MB": 10_000_000, "7B": 7,
		"0": 0, "": 0, "-1": 0, "1e3": 0, "0x10": 0, "MiB": 0, "9999999TiB": 0, "NaN": 0, "1_000": 0, "5mib": 0, ".": 0,
	} {
		if got, err := size(in); got != want || (err == nil) != (want > 0) {
			t.Errorf("size(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for in, want := range map[string]int64{"2M": 2_000_000, "500M": 500_000_000, "128k": 128_000, "1.5M": 1_500_000, "12": 12, "2MiB": 0, "M": 0} {
		if got, err := Count(in); got != want || (err == nil) != (want > 0) {
			t.Errorf("count(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for in, want := range map[string]float64{"25%": 0.25, "0%": 0, "100%": 1, "2.5 %": 0.025, "101%": -1, "25": -1, "%": -1, "-1%": -1} {
		if got, err := percent(in); (err == nil) != (want >= 0) || err == nil && got != want {
			t.Errorf("percent(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
}

func TestBranchNames(t *testing.T) {
	for in, want := range map[string]bool{
		"main": true, "release/1.x": true, "grün": true, "a@b": true, "queued": true,
		"": false, "-x": false, "a..b": false, "a b": false, "a~1": false, "a^": false, "a:b": false, "a?": false, "a*": false,
		"a[": false, `a\b`: false, "a@{1}": false, "@": false, "HEAD": false, "a.lock": false, "a.lock/b": false, ".a": false,
		"a/.b": false, "/a": false, "a/": false, "a//b": false, "a.": false, "a\x7f": false, "a\nb": false, "queue/x": false, "refs/x": false,
	} {
		if _, err := branchName(in); (err == nil) != want {
			t.Errorf("branchName(%q) = %v, want fine %v", in, err, want)
		}
	}
}

func TestSchedules(t *testing.T) {
	for in, want := range map[string]bool{
		"*/10 * * * *": true, "0 3 * * mon-fri": true, "0,30 0-6/2 1 JAN ?": true, "5/15 * * * *": true, "0 0 31 12 6": true,
		"@every 3s": true, "@every 1h30m": true, "@hourly": true, "@midnight": true, "TZ=Europe/Berlin 0 3 * * *": true, "CRON_TZ=UTC @daily": true,
		"": false, "* * * *": false, "* * * * * *": false, "60 * * * *": false, "* 24 * * *": false, "* * 0 * *": false, "* * * 13 *": false,
		"* * * * 7": false, "5-1 * * * *": false, "*/0 * * * *": false, "*/ * * * *": false, "a * * * *": false, "1-2-3 * * * *": false,
		"1/2/3 * * * *": false, ", * * * *": false, "-1 * * * *": false, "+1 * * * *": false, "@every": false, "@every -3s": false, "@every 1ms": false,
		"@never": false, "TZ=": false, "TZ=Nowhere * * * * *": false, "TZ=UTC": false, "*-3 * * * *": false,
	} {
		if _, err := schedule(in); (err == nil) != want {
			t.Errorf("schedule(%q) = %v, want fine %v", in, err, want)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"**/*.pem", "a.pem", true},
		{"**/*.pem", "x/y/a.pem", true},
		{"**/*.pem", "a.pem/x", false},
		{"*.pem", "x/a.pem", false},
		{".github/**", ".github/workflows/ci.yml", true},
		{".github/**", ".githubx/a", false},
		{"**", "any/thing", true},
		{"a/**/z", "a/z", true},
		{"a/**/z", "a/b/c/z", true},
		{"a/**/b/**/c", "a/x/b/y/b/c", true},
		{"a/**/b/**/c", "a/x/c", false},
		{"a/?.go", "a/b.go", true},
		{"[a-c]/x", "b/x", true},
		{"a[", "a[", false},
		{".greenward.yml", ".greenward.yml", true},
		{".greenward.yml", "x/.greenward.yml", false},
		{"a", "", false},
	} {
		if got := Match(tt.pattern, tt.name); got != tt.want {
			t.Errorf("Match(%q, %q) = %v, want %v", tt.pattern, tt.name, got, tt.want)
		}
	}
}

func TestMatchIsQuick(t *testing.T) {
	var pattern, name string
	for range 200 {
		pattern += "**/a/"
		name += "a/"
	}
	start := time.Now()
	if Match(pattern+"b", name+"c") {
		t.Error("Match found what is not there")
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("Match took %v", took)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("a/**/b", "a/x/b")
	f.Add("**/*.pem", "a.pem")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if _, err := glob(pattern); err == nil && Match(pattern, name) && !Match("**/"+pattern, name) {
			t.Errorf("%q takes in %q, **/ before it does not", pattern, name)
		}
	})
}
