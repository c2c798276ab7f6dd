package cli

import (
	"strings"
	"testing"
)

// used is what a program says that it used.
type used struct{ Prompt, Cached, Completion int64 }

func (u *used) add(prompt, cached, completion int64) {
	*u = used{u.Prompt + prompt, u.Cached + cached, u.Completion + completion}
}

// What codex, opencode, claude and gemini printed, and what else may come.
func TestEventsOfACommand(t *testing.T) {
	const codex = `{"type":"thread.started","thread_id":"x"}
{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"/bin/bash -lc 'make'","aggregated_output":"","exit_code":0,"status":"completed"}}
not JSON at all
{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"all is done"}}
{"type":"turn.completed","usage":{"input_tokens":10037,"cached_input_tokens":7,"output_tokens":15,"reasoning_output_tokens":0}}
`
	const opencode = `{"type":"step_start","sessionID":"s","part":{"type":"step-start"}}
{"type":"tool_use","sessionID":"s","part":{"type":"tool","tool":"bash","callID":"call_1","state":{"status":"completed","input":{"command":"make","description":"does the task"},"output":"(no output)"}}}
{"type":"step_finish","sessionID":"s","part":{"type":"step-finish","reason":"tool-calls","tokens":{"total":22,"input":10,"output":5,"reasoning":0,"cache":{"write":0,"read":7}},"cost":0}}
{"type":"text","sessionID":"s","part":{"type":"text","text":"all is done","time":{"start":1,"end":2}}}
`
	const claude = `{"type":"system","subtype":"init","cwd":"/workspace","tools":["Bash"],"model":"claude-sonnet-4-5"}
{"type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"I do it."}],"usage":{"input_tokens":100,"output_tokens":7}}}
{"type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make","description":"does the task"}}],"usage":{"input_tokens":100,"output_tokens":7}}}
{"type":"user","message":{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result","content":"","is_error":false}]}}
{"type":"assistant","message":{"id":"m2","role":"assistant","content":[{"type":"text","text":"all is done"}]}}
{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"all is done","total_cost_usd":0.1,"usage":{"input_tokens":300,"cache_creation_input_tokens":20,"cache_read_input_tokens":40,"output_tokens":12}}
`
	const gemini = `{"type":"init","session_id":"s","model":"gemini-2.5-flash"}
{"type":"message","role":"user","content":"the task"}
{"type":"message","role":"assistant","content":"I do it.","delta":true}
{"type":"tool_use","tool_name":"run_shell_command","tool_id":"c_1","parameters":{"command":"make","description":"does the task"}}
{"type":"tool_result","tool_id":"c_1","status":"success","output":""}
{"type":"message","role":"assistant","content":"all is ","delta":true}
{"type":"message","role":"assistant","content":"done","delta":true}
{"type":"result","status":"success","stats":{"total_tokens":312,"input_tokens":300,"output_tokens":12,"cached":40,"tool_calls":1}}
`
	for name, c := range map[string]struct {
		output, said, fault string
		usage               used
		steps               int
	}{
		"codex":            {codex, "all is done", "", used{Prompt: 10037, Cached: 7, Completion: 15}, 1},
		"opencode":         {opencode, "all is done", "", used{Prompt: 17, Cached: 7, Completion: 5}, 1},
		"claude":           {claude, "all is done", "", used{Prompt: 360, Cached: 40, Completion: 12}, 1},
		"claude refused":   {`{"type":"result","subtype":"success","is_error":true,"result":"API Error: 400 no"}` + "\n", "", "API Error: 400 no", used{}, 0},
		"gemini":           {gemini, "all is done", "", used{Prompt: 300, Cached: 40, Completion: 12}, 1},
		"gemini refused":   {`{"type":"result","status":"error","error":{"type":"Error","message":"no key"}}` + "\n", "", "no key", used{}, 0},
		"an error":         {`{"type":"error","error":{"name":"APIError","data":{"message":"no key","statusCode":401}}}` + "\n", "", "no key", used{}, 0},
		"a failed turn":    {`{"type":"turn.failed","error":{"message":"no quota"}}` + "\n", "", "no quota", used{}, 0},
		"plain text":       {"one\ntwo\n", "", "", used{}, 0},
		"a liar":           {`{"type":"turn.completed","usage":{"input_tokens":-5,"output_tokens":99999999999999999}}`, "", "", used{}, 0},
		"other types":      {`{"type":7}` + "\n" + `{"item":"x"}` + "\n[]\nnull\n", "", "", used{}, 0},
		"a word as error":  {`{"type":"error","error":"no key"}` + "\n", "", "no key", used{}, 0},
		"numbers as text":  {`{"type":"turn.failed","usage":{"input_tokens":"7","output_tokens":3},"error":{"message":"no quota"}}` + "\n", "", "no quota", used{Completion: 3}, 0},
		"one endless line": {strings.Repeat("{", 2*maxLine) + "\n" + codex, "all is done", "", used{Prompt: 10037, Cached: 7, Completion: 15}, 1},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			spent := used{}
			e := Listen(spent.add)
			for rest := c.output; len(rest) > 0 && (size > 1 || len(c.output) < 1<<16); rest = rest[min(size, len(rest)):] {
				if n, err := e.Write([]byte(rest[:min(size, len(rest))])); n != min(size, len(rest)) || err != nil {
					t.Fatal(n, err)
				}
			}
			if size == 1 && len(c.output) >= 1<<16 {
				continue
			}
			e.End()
			if said := e.Said(); said != c.said || e.Fault() != c.fault || spent != c.usage || len(e.Steps()) != c.steps {
				t.Errorf("%s in pieces of %d: %q, %q, %+v, %v", name, size, e.Said(), e.Fault(), spent, e.Steps())
			}
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"type":"item.completed","item":{"type":"agent_message","text":"x"}}`+"\n"), 3)
	f.Add([]byte("\xff\x00{\n"), 1)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		spent := used{}
		e := Listen(spent.add)
		for size = 1 + (size&0xff+0xff)&0xff; len(data) > 0; data = data[min(size, len(data)):] {
			if _, err := e.Write(data[:min(size, len(data))]); err != nil {
				t.Fatal(err)
			}
		}
		e.End()
		if spent.Prompt < 0 || spent.Completion < 0 || len(e.line) > maxLine {
			t.Errorf("%+v", e)
		}
	})
}
