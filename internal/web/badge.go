package web

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/rs/zerolog"
)

// badge answers GET /badge.svg: green's short id and how far behind main it is, in
// grey where there is none yet, in red while it is stale. A README may show it, so it
// tells what any clone of the repository tells, and no more.
func (s *site) badge(w http.ResponseWriter, r *http.Request) {
	o, err := s.overview(r.Context())
	text, colour := "unknown", "#777"
	switch {
	case err != nil:
		zerolog.Ctx(r.Context()).Warn().Err(err).Msg("badge is without news")
	case o.Green == "":
		text = "none yet"
	case o.Stale:
		text, colour = short(o.Green)[:7]+", stale", "#b32"
	case o.Behind > 0:
		text, colour = fmt.Sprintf("%s, %d behind", short(o.Green)[:7], o.Behind), "#270"
	default:
		text, colour = short(o.Green)[:7], "#270"
	}
	const label, letter = 46, 7 // pixels: of the left field, and of one letter
	width := label + letter*len(text) + 10
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Cache-Control", "no-cache, max-age=60")
	s.write(w, r, fmt.Appendf(nil, strings.TrimSpace(`
<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="20" role="img" aria-label="green: %[2]s"><title>green: %[2]s</title>`+
		`<rect width="46" height="20" fill="#555"/><rect x="46" width="%[3]d" height="20" fill="%[4]s"/>`+
		`<g fill="#fff" font-family="Verdana,sans-serif" font-size="11"><text x="6" y="14">green</text><text x="51" y="14">%[2]s</text></g></svg>
`)+"\n", width, text, width-label, colour))
}
