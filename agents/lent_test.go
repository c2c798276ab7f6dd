package agents

import (
	"os"
	"strings"
	"testing"
)

// TestA55WhatIsLentToACommandStaysThere: a key that a command-line agent needs, and
// prints in pieces, in base64, as its last words or as its trouble, is in no transcript
// and in no commit; files that hold it do not land.
func TestA55WhatIsLentToACommandStaysThere(t *testing.T) {
	const key = "sk-live-0123456789abcdef"
	for name, one := range map[string]struct {
		does  string
		lands Outcome
	}{
		"printed in pieces": {`echo x >x.txt; printf %.9s "$LENT"; sleep 0.05; printf "${LENT#?????????}\n"; echo "$LENT" | base64; echo "my key is $LENT"`, Done},
		"told in events":    {`echo x >x.txt; echo "{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"key $LENT\"}}"; echo "{\"type\":\"item.completed\",\"item\":{\"type\":\"command_execution\",\"command\":\"echo $LENT\"}}"; echo "{\"type\":\"error\",\"message\":\"bad key $LENT\"}"`, Done},
		"written":           {`echo "key = $LENT" >x.txt`, Blocked},
		"written in base64": {`echo "$LENT" | base64 >x.txt`, Blocked},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			mind := &CommandMind{Argv: []string{"sh", "-c", one.does}, Env: []string{"LENT=" + key, "SHORT=x"}, Listen: listen}
			ending := w.do(w.worker(mind), w.addTask(Task{ID: "run/a"}))
			if ending.Outcome != one.lands {
				t.Errorf("%+v", ending)
			}
			transcript, err := os.ReadFile(TranscriptPath(w.hub.State(), "run", "worker-1"))
			if err != nil {
				t.Fatal(err)
			}
			for where, text := range map[string]string{"the transcript": string(transcript), "main": w.git("log", "-p", "--format=%B", "main")} {
				for _, form := range []string{"0123456789abcdef", "c2stbGl2ZS0wMTIz"} {
					if strings.Contains(text, form) {
						t.Errorf("%s holds %s:\n%s", where, form, text)
					}
				}
			}
			if one.lands == Blocked && !strings.Contains(strings.Join(w.handoff(ending.Landed).Notes, " "), "LENT") {
				t.Errorf("notes %q", w.handoff(ending.Landed).Notes)
			}
		})
	}
}
