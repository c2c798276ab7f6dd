package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"greenward/internal/config"
	"greenward/internal/git"
)

func initCommand() command {
	return command{
		name: "init", summary: "write .greenward.yml after looking at the repository, never over one that is there, and make the remote greenward",
		example: "greenward init\ngreenward -C ~/project init --print",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			show := fs.Bool("print", false, "print it instead of writing it")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				return a.init(ctx, *show)
			}
		},
	}
}

func (a *app) init(ctx context.Context, show bool) error {
	repo, err := git.Open(ctx, orElse(a.dir, "."), a.host)
	if err != nil {
		return err
	}
	bare, err := repo.IsBare(ctx)
	if err != nil {
		return err
	}
	top := ""
	if !bare {
		if top, err = repo.Top(ctx, orElse(a.dir, ".")); err != nil {
			return err
		}
	}
	files, read, err := contents(ctx, repo, top)
	if err != nil {
		return err
	}
	for _, name := range []string{config.File, config.FallbackFile} {
		if slices.Contains(files, name) && !show && !bare {
			return a.join(ctx, top, name, read)
		}
	}
	text := config.Detect(files, read)
	main, err := a.firstTrunk(ctx, orElse(top, orElse(a.dir, ".")))
	if err != nil {
		return err
	}
	if main != config.Default().Main {
		text = append(fmt.Appendf(nil, "main: %s\n", main), text...)
	}
	if show || bare {
		if err := a.print(map[string]any{"policy": string(text)}, func(w io.Writer) { fmt.Fprint(w, string(text)) }); err != nil || show {
			return err
		}
		return usagef("a bare repository has no working tree to write to: commit the text above as %s", config.File)
	}
	return a.writePolicy(ctx, top, text, files)
}

// firstTrunk is the trunk that a policy written in dir should name. It makes the hub of a
// clone, so that from now on `git push greenward HEAD:queue/…` asks for a change to land.
// Where the remote does not answer, what the clone remembers of it has to do.
func (a *app) firstTrunk(ctx context.Context, dir string) (string, error) {
	hub, err := git.OpenHub(ctx, git.HubInput{Dir: dir, Remote: a.remote, Host: a.host, Key: a.key})
	if err != nil {
		return "", err
	}
	name, _, _, err := a.trunk(ctx, hub)
	if _, doubt := errors.AsType[usageError](err); err != nil && hub.HasRemote() && ctx.Err() == nil && !doubt {
		name, _, _, err = a.ownTrunk(ctx, hub)
	}
	return name, err
}

func (a *app) writePolicy(ctx context.Context, top string, text []byte, files []string) error {
	path := filepath.Join(top, config.File)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) { // git ignores it: whoever wrote it knows
		return usagef("%s is there already, though git does not see it; nothing was written", path)
	}
	if err != nil {
		return fmt.Errorf("write policy: %w", err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write policy: %w", err)
	}
	policy, err := config.Parse(text)
	if err != nil {
		return err
	}
	if err := a.meet(ctx, top); err != nil {
		return err
	}
	return a.print(initResult{path, checkNames(policy), true}, func(w io.Writer) {
		line(w, "wrote %s", path)
		for _, c := range policy.Checks {
			line(w, "  %-8s %s", c.Name, c.Run)
		}
		if len(policy.Checks) == 0 {
			line(w, "  no checks were found, so it says `checks: none`: green is then whatever merges; add one")
		}
		if !slices.Contains(files, ".gitattributes") {
			line(w, "to leave the task files out of archives, put `tasks/ export-ignore` into .gitattributes")
		}
		line(w, "commit it to %s: the policy in force is the one there", policy.Main)
	})
}

// initResult is what `init --json` prints.
type initResult struct {
	Path    string   `json:"path"`
	Checks  []string `json:"checks"`
	Written bool     `json:"written"` // false: it was there
}

func checkNames(policy config.Config) []string {
	names := []string{}
	for _, c := range policy.Checks {
		names = append(names, c.Name)
	}
	return names
}

// join is init where somebody has written a policy already: it stays as it is, and
// the clone gets what init gives it beside.
func (a *app) join(ctx context.Context, top, name string, read func(string) ([]byte, error)) error {
	text, err := read(name)
	if err != nil {
		return fmt.Errorf("read the policy: %w", err)
	}
	policy, err := config.Parse(text)
	if err != nil {
		return fmt.Errorf("%s is there already, and malformed: %w", name, err)
	}
	if err := a.meet(ctx, top); err != nil {
		return err
	}
	path := filepath.Join(top, filepath.FromSlash(name))
	return a.print(initResult{path, checkNames(policy), false}, func(w io.Writer) {
		line(w, "%s is there already and stays as it is; greenward init --print shows what init would write", path)
		line(w, "the remote greenward is there: git push greenward HEAD:queue/NAME asks for a change to land")
	})
}

// meet gives a clone its hub and the remote greenward, so that
// `git push greenward HEAD:queue/…` asks for a change to land.
func (a *app) meet(ctx context.Context, top string) error {
	_, err := git.OpenHub(ctx, git.HubInput{Dir: top, Remote: a.remote, Host: a.host})
	return err
}

// contents lists what a repository holds: its working tree, or HEAD when bare.
func contents(ctx context.Context, repo *git.Repo, top string) ([]string, func(string) ([]byte, error), error) {
	if top == "" {
		head, err := repo.RevParse(ctx, "HEAD")
		if err != nil {
			return nil, nil, err
		}
		files, err := repo.Files(head, "")
		return files, func(name string) ([]byte, error) { return repo.File(head, name) }, err
	}
	files, err := repo.TrackedOrNew(ctx, top)
	return files, func(name string) ([]byte, error) {
		root, err := os.OpenRoot(top)
		if err != nil {
			return nil, err
		}
		data, err := root.ReadFile(filepath.FromSlash(name))
		return data, errors.Join(err, root.Close())
	}, err
}
