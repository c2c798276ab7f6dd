package prompts

import (
	"strings"
	"testing"
)

func TestOwnWords(t *testing.T) {
	own := map[string]string{
		"worker": "You are {{.Agent}}. Be swift.", "planner": "{{.Nonsense}}", "fixup": "{{", "judge": " \n", "resolver": strings.Repeat("x", maxOwn+1),
	}
	source := func(name string) (string, bool) { text, ok := own[name]; return text, ok }
	p, fault, err := RenderOwn(source, "worker", Facts{Agent: "w"})
	if err != nil || fault != "" || p.Text != "You are w. Be swift." || len(p.Hash) != 12 {
		t.Errorf("%+v, %q, %v", p, fault, err)
	}
	for _, name := range []string{"planner", "fixup", "judge", "resolver"} {
		p, fault, err := RenderOwn(source, name, Facts{})
		built, buildErr := Render(name, Facts{})
		if err != nil || buildErr != nil || !strings.Contains(fault, ".greenward/prompts/"+name+".md") || p != built {
			t.Errorf("%s: %q, %v", name, fault, err)
		}
	}
	p, fault, err = RenderOwn(source, "command", Facts{})
	if built, buildErr := Render("command", Facts{}); err != nil || buildErr != nil || fault != "" || p != built {
		t.Errorf("one without own words: %q, %v", fault, err)
	}
}

func TestA56HiddenTextIsMadeVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\ttext, naïve 🙂 👩\u200d💻 ❤️": "plain\n\ttext, naïve 🙂 👩\u200d💻 ❤️",
		"a\u202eb":                "a<U+202E>b",
		"zero\u200bwidth\u2060":   "zero<U+200B>width<U+2060>",
		"tag\U000e0069\U000e0067": "tag<U+E0069><U+E0067>",
		"bell\x07\x1b[2J":         "bell<U+0007><U+001B>[2J",
		"bad\xff":                 "bad\ufffd",
	} {
		if got := Visible(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}
