// Package arch owns the rules of the tree that the compiler does not hold:
// which package may import which, which one alone may use a dependency, what
// only main may do, and how long a file or a function gets. It parses and does
// not build, so it judges a tree that is half written. Whether code is right is
// not its business.
package arch

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// An Offence is one place that breaks a rule.
type Offence struct {
	File string // slash-separated, from the top of the tree
	Line int
	Rule string // which rule, and the cure
}

func (o Offence) String() string { return fmt.Sprintf("%s:%d: %s", o.File, o.Line, o.Rule) }

// fanOut is how many of our packages one that is no command may import.
const fanOut = 8

// A file is one parsed Go file and the package it belongs to.
type file struct {
	name  string // from the top of the tree
	pkg   string // its folder from the top; "." at the top
	test  bool
	fset  *token.FileSet
	ast   *ast.File
	lines int
}

// main reports whether the file belongs to a command.
func (f file) main() bool { return f.ast.Name.Name == "main" }

// A tree is all that the rules look at.
type tree struct {
	module   string
	files    []file
	offences []Offence
}

func (t *tree) offend(f file, pos token.Pos, format string, args ...any) {
	t.offences = append(t.offences, Offence{f.name, f.fset.Position(pos).Line, fmt.Sprintf(format, args...)})
}

// Check reads a module's tree and returns every offence in it, by file and
// line. Its error is for a tree that cannot be read; a Go file that cannot be
// parsed is an offence.
func Check(root fs.FS) ([]Offence, error) {
	t := &tree{}
	if err := t.load(root); err != nil {
		return nil, err
	}
	t.packages()
	for _, f := range t.files {
		t.imports(f)
		t.code(f)
	}
	slices.SortFunc(t.offences, func(a, b Offence) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule))
	})
	return t.offences, nil
}

func (t *tree) load(root fs.FS) error {
	mod, err := fs.ReadFile(root, "go.mod")
	if err != nil {
		return fmt.Errorf("read the module's name: %w", err)
	}
	for line := range strings.Lines(string(mod)) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			t.module = strings.TrimSpace(name)
		}
	}
	if t.module == "" {
		return errors.New("go.mod names no module")
	}
	return fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("walk the tree: %w", err)
		case d.IsDir() && foreign(root, name):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		return t.parse(root, name)
	})
}

// foreign folders hold no package of this module.
func foreign(root fs.FS, dir string) bool {
	base := path.Base(dir)
	if dir == "." {
		return false
	}
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "vendor" {
		return true
	}
	_, err := fs.Stat(root, path.Join(dir, "go.mod"))
	return err == nil
}

func (t *tree) parse(root fs.FS, name string) error {
	source, err := fs.ReadFile(root, name)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	f := file{
		name: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
		fset: token.NewFileSet(), lines: strings.Count(string(source), "\n"),
	}
	f.ast, err = parser.ParseFile(f.fset, name, source, parser.ParseComments)
	if err != nil {
		t.offences = append(t.offences, Offence{name, 1, fmt.Sprintf("does not parse: %v", err)})
		return nil
	}
	t.files = append(t.files, f)
	return nil
}

// packages holds what is true of a package as a whole.
func (t *tree) packages() {
	documented, first, own := map[string]bool{}, map[string]file{}, map[string]map[string]bool{}
	for _, f := range t.files {
		if f.test {
			continue
		}
		if _, ok := first[f.pkg]; !ok {
			first[f.pkg], own[f.pkg] = f, map[string]bool{}
		}
		for _, spec := range f.ast.Imports {
			if target := importPath(spec); strings.HasPrefix(target, t.module+"/") {
				own[f.pkg][target] = true
			}
		}
		documented[f.pkg] = documented[f.pkg] || len(strings.Fields(f.ast.Doc.Text())) > 5
	}
	for pkg, f := range first {
		if n := len(own[pkg]); n > fanOut && !f.main() {
			t.offend(f, f.ast.Package, "package %s imports %d packages of ours: at most %d, only a command knows them all", pkg, n, fanOut)
		}
		if !documented[pkg] {
			t.offend(f, f.ast.Package, "package %s has no comment: say what it owns, and what not", pkg)
		}
		for _, vague := range []string{"util", "utils", "common", "types", "helpers", "manager", "service", "misc", "base", "shared"} {
			if path.Base(pkg) == vague {
				t.offend(f, f.ast.Package, "package %s is called %s: a package is a noun for what it owns", pkg, vague)
			}
		}
		if _, ok := levelOf(pkg); !ok {
			t.offend(f, f.ast.Package, "package %s has no place in the table of levels: give it one in internal/arch", pkg)
		}
	}
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return "" // the parser lets no such import through
	}
	return p
}
