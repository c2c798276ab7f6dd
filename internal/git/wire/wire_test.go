package wire_test

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"greenward/internal/git/wire"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	by   = " a <a@x> 1790000000 +0000\n"
	lone = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor" + by + "committer" + by + "\nclaim\n"
)

// What is packed comes out again, whatever it is.
func TestCommitsComeOutAsTheyWentIn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 0, 20).Draw(t, "commits")
		pack, err := wire.Commits(list)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.Unpack(pack)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][]byte{}
		for _, raw := range list {
			want[wire.Name(raw)] = raw
		}
		if !maps.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("got %d commits, want %d", len(got), len(want))
		}
		answer, err := wire.Fetched(list)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := wire.ReadFetched(bytes.NewReader(answer)); err != nil || !maps.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("fetched %d commits of %d, %v", len(got), len(want), err)
		}
	})
}

// A report says of each ref what became of it, with and without side bands.
func TestReportSaysWhatStays(t *testing.T) {
	t.Parallel()
	moves := []wire.Move{{Ref: "refs/a"}, {Ref: "refs/b"}}
	stays := map[string]string{"refs/b": wire.Moved(wire.Zero)}
	got, err := wire.ReadReport(bytes.NewReader(wire.Report(moves, stays, false)), moves)
	if err != nil || cmp.Diff(got, stays) != "" {
		t.Errorf("%v %s", err, cmp.Diff(got, stays))
	}
	if is, moved := wire.Is(got["refs/b"]); !moved || is != wire.Zero {
		t.Errorf("it is %q, %v", is, moved)
	}
	if _, moved := wire.Is("failed to update ref"); moved {
		t.Error("git's own words say no value")
	}
	if _, err := wire.ReadReport(bytes.NewReader(wire.Report(moves[:1], nil, false)), moves); !errors.Is(err, wire.ErrForeign) {
		t.Errorf("nothing was said of refs/b: %v", err)
	}
	if banded := wire.Report(moves, stays, true); banded[4] != 1 {
		t.Errorf("no side band: %q", banded)
	}
}

// What is asked is read as it was asked.
func TestAsksAreRead(t *testing.T) {
	t.Parallel()
	h := strings.Repeat("a", 40)
	for name, tt := range map[string]struct {
		body []byte
		want wire.Ask
	}{
		"list":  {wire.List("refs/heads/", "refs/notes/"), wire.Ask{Prefixes: []string{"refs/heads/", "refs/notes/"}}},
		"fetch": {wire.Fetch([]string{h}), wire.Ask{Want: []string{h}}},
	} {
		if got, err := wire.ReadAsk(tt.body); err != nil || !slices.Equal(got.Want, tt.want.Want) || !slices.Equal(got.Prefixes, tt.want.Prefixes) {
			t.Errorf("%s: %v %v", name, err, got)
		}
	}
	// What git's own client asks for beside that is git's to answer.
	for _, more := range []string{"peel", "symrefs", "unborn"} {
		body := strings.Replace(string(wire.List("refs/heads/")), "0000", "0009peel\n0000", 1)
		body = strings.Replace(body, "0009peel", "000"+string("123456789abcdef"[len(more)+4])+more, 1)
		if _, err := wire.ReadAsk([]byte(body)); !errors.Is(err, wire.ErrForeign) {
			t.Errorf("%s: %v", more, err)
		}
	}
	refs := []wire.Ref{{Name: "refs/heads/main", Hash: h}}
	if got, err := wire.ReadListing(bytes.NewReader(wire.Listing(refs))); err != nil || !slices.Equal(got, refs) {
		t.Errorf("%v %v", got, err)
	}
}

// Only what git takes for sound stands alone.
func TestAloneIsSound(t *testing.T) {
	t.Parallel()
	if !wire.Alone([]byte(lone)) {
		t.Error("a sound commit does not stand alone")
	}
	for _, bad := range []string{
		"", "x", strings.Replace(lone, "author", "parent "+wire.Zero+"\nauthor", 1), strings.Replace(lone, "4b82", "5b82", 1),
		strings.Replace(lone, "author a", "author", 1), strings.Replace(lone, "+0000", "0000", 1), strings.Replace(lone, "1790000000", "01790000000", 1),
		strings.Replace(lone, "\n\n", "\n", 1), lone + "\x00", strings.Replace(lone, "<a@x>", "<a@x", 1), strings.Replace(lone, "<a@x>", "<a<@x>", 1),
	} {
		if wire.Alone([]byte(bad)) {
			t.Errorf("%q stands alone", bad)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	pack, err := wire.Commits([][]byte{[]byte(lone), {}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pack)
	f.Add([]byte("PACK\x00\x00\x00\x02"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := wire.Unpack(data)
		for name, raw := range all {
			if err != nil || wire.Name(raw) != name || len(raw) > wire.MaxCommit {
				t.Errorf("%s of %d bytes, %v", name, len(raw), err)
			}
		}
	})
}

func FuzzReads(f *testing.F) {
	f.Add(wire.List("refs/heads/"))
	f.Add(wire.Fetch([]string{wire.Zero}))
	f.Add(wire.Listing([]wire.Ref{{Name: "refs/x", Hash: wire.Zero}}))
	f.Add(wire.Report([]wire.Move{{Ref: "refs/a"}}, nil, false))
	f.Fuzz(func(t *testing.T, data []byte) {
		if a, err := wire.ReadAsk(data); err == nil && (len(a.Want) == 0) == (len(a.Prefixes) == 0) {
			t.Errorf("asks for both or for nothing: %v", a)
		}
		refs, err := wire.ReadListing(bytes.NewReader(data))
		for _, r := range refs {
			if err != nil || !strings.HasPrefix(r.Name, "refs/") || len(r.Hash) != 40 {
				t.Errorf("%v is no ref, %v", r, err)
			}
		}
		if stays, err := wire.ReadReport(bytes.NewReader(data), []wire.Move{{Ref: "refs/a"}}); err == nil && !bytes.Contains(data, []byte("refs/a")) {
			t.Errorf("reports of what nobody named: %v", stays)
		}
	})
}
