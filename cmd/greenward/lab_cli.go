package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"greenward/internal/lab/crowd"
)

// cliAt is a program that another maker's agent is, as NAME=PATH says.
func (a *app) cliAt(s string) (crowd.CLI, error) {
	name, path, _ := strings.Cut(s, "=")
	argv := map[string]func(path, url string) []string{"codex": codexArgv, "opencode": opencodeArgv}[name]
	if argv == nil || path == "" {
		return crowd.CLI{}, fmt.Errorf("say codex=PATH or opencode=PATH")
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return crowd.CLI{}, err
	}
	// A cell shows what PATH names.
	a.host = a.host.With("PATH=" + filepath.Dir(path) + string(filepath.ListSeparator) + a.host.Get("PATH"))
	return crowd.CLI{Name: name, Argv: func(url string) []string { return argv(path, url) }}, nil
}

// clisOnPath are those that are installed.
func (a *app) clisOnPath() []crowd.CLI {
	var found []crowd.CLI
	for _, name := range []string{"codex", "opencode"} {
		for _, dir := range filepath.SplitList(a.host.Get("PATH")) {
			if cli, err := a.cliAt(name + "=" + filepath.Join(dir, name)); err == nil {
				found = append(found, cli)
				break
			}
		}
	}
	return found
}

// codexArgv has codex ask a model server for whatever model it has.
func codexArgv(path, url string) []string {
	return []string{
		"env", "OPENAI_KEY=none", path, "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "scripted", "-c", "model_provider=s",
		"-c", `model_providers.s={name="s",base_url="` + url + `",wire_api="responses",env_key="OPENAI_KEY"}`, "-",
	}
}

func opencodeArgv(path, url string) []string {
	return []string{
		"env", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		`OPENCODE_CONFIG_CONTENT={"autoupdate":false,"share":"disabled","model":"s/scripted","small_model":"s/scripted","permission":"allow",` +
			`"provider":{"s":{"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"` + url + `","apiKey":"none"},"models":{"scripted":{}}}}}`,
		path, "run", "--format", "json",
	}
}
