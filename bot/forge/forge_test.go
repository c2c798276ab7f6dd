package forge

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v66/github"
)

// What an error means for the requests that follow. A token that GitHub does not give,
// because the owner has taken away a permission meanwhile, makes the client be made anew.
func TestTroubleOf(t *testing.T) {
	said := func(status int, text string, header ...string) error {
		h := http.Header{}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return fmt.Errorf("ask: %w", &github.ErrorResponse{Response: &http.Response{StatusCode: status, Header: h}, Message: text})
	}
	minting := func(status int) error {
		return &ghinstallation.HTTPError{Response: &http.Response{StatusCode: status, Header: http.Header{}}}
	}
	for name, tc := range map[string]struct {
		err  error
		want Trouble
	}{
		"none":                         {nil, Trouble{}},
		"of another kind":              {errors.New("cut"), Trouble{}},
		"server down":                  {said(503, ""), Trouble{}},
		"not permitted":                {said(403, "Resource not accessible"), Trouble{Refused: true}},
		"secondary limit by its text":  {said(403, "You have exceeded a secondary rate limit"), Trouble{Limited: true}},
		"too many":                     {said(429, "", "Retry-After", "9"), Trouble{Limited: true, Wait: 10e9}},
		"credentials refused":          {said(401, ""), Trouble{Stale: true}},
		"token with too many rights":   {minting(422), Trouble{Stale: true}},
		"token of a deleted App":       {minting(401), Trouble{Stale: true}},
		"token without an answer":      {&ghinstallation.HTTPError{}, Trouble{}},
		"something else unprocessable": {said(422, ""), Trouble{}},
	} {
		if got := TroubleOf(tc.err); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
