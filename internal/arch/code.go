package arch

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

const (
	fileLines     = 450
	functionLines = 80
)

// code holds what may be written where.
func (t *tree) code(f file) {
	if !f.test {
		t.length(f)
		t.state(f)
	}
	names := packageNames(f)
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			t.selector(f, n, names)
		case *ast.StructType:
			t.stored(f, n, names)
		case *ast.CallExpr:
			t.call(f, n, names)
		}
		return true
	})
}

// length holds the size of files and functions.
func (t *tree) length(f file) {
	if f.lines >= fileLines {
		t.offend(f, f.ast.Package, "the file has %d lines: fewer than %d make one story", f.lines, fileLines)
	}
	for _, d := range f.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1; n >= functionLines {
			t.offend(f, fn.Pos(), "%s has %d lines: fewer than %d can be read at once", fn.Name.Name, n, functionLines)
		}
		if fn.Name.Name == "init" && fn.Recv == nil {
			t.offend(f, fn.Pos(), "init: nothing starts hidden; main wires")
		}
	}
}

// state holds that a package has no variables but sentinel errors, embedded
// files and assertions of an interface.
func (t *tree) state(f file) {
	for _, d := range f.ast.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR {
			continue
		}
		for _, s := range gen.Specs {
			spec, ok := s.(*ast.ValueSpec)
			if !ok || embedded(gen, spec) {
				continue
			}
			for i, name := range spec.Names {
				if name.Name == "_" || i < len(spec.Values) && sentinel(name.Name, spec.Values[i]) {
					continue
				}
				t.offend(f, name.Pos(), "%s is a package variable: pass it, or make it a constant or a function", name.Name)
			}
		}
	}
}

func embedded(gen *ast.GenDecl, spec *ast.ValueSpec) bool {
	comments := []*ast.CommentGroup{gen.Doc, spec.Doc}
	return slices.ContainsFunc(comments, func(g *ast.CommentGroup) bool {
		return g != nil && slices.ContainsFunc(g.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
	})
}

func sentinel(name string, value ast.Expr) bool {
	call, ok := value.(*ast.CallExpr)
	if !ok || !strings.HasPrefix(strings.ToLower(name), "err") {
		return false
	}
	fn, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, ok := fn.X.(*ast.Ident)
	return ok && (from.Name == "errors" && fn.Sel.Name == "New" || from.Name == "fmt" && fn.Sel.Name == "Errorf")
}

// packageNames are the imports of a file by the name they go by in it.
func packageNames(f file) map[string]string {
	names := map[string]string{}
	for _, spec := range f.ast.Imports {
		p := importPath(spec)
		if spec.Name != nil {
			names[spec.Name.Name] = p
		} else {
			names[path.Base(p)] = p
		}
	}
	return names
}

// named is what a selector stands for, as in "time.Sleep"; empty when its left
// side is not a package.
func named(n *ast.SelectorExpr, names map[string]string) string {
	id, ok := n.X.(*ast.Ident)
	if !ok || id.Obj != nil || names[id.Name] == "" {
		return ""
	}
	return names[id.Name] + "." + n.Sel.Name
}

// A ban is a name that is used in few places.
type ban struct {
	names []string
	main  bool     // commands may
	test  bool     // tests and doubles may
	only  []string // these packages may
	why   string
}

func bans() []ban {
	return []ban{
		{names: []string{"time.Sleep"}, why: "select on a timer and ctx.Done"},
		{
			names: []string{"time.Now", "time.Since", "time.Until"}, main: true, test: true, only: []string{"internal/proc"},
			why: "take a Now func() time.Time",
		},
		{names: []string{"context.Background", "context.TODO"}, main: true, test: true, why: "take the caller's context"},
		{
			names: []string{"os.Getenv", "os.LookupEnv", "os.Environ", "os.ExpandEnv"}, main: true, test: true,
			why: "only main reads the environment",
		},
		{names: []string{"os.Setenv", "os.Unsetenv", "os.Clearenv", "os.Chdir"}, why: "it changes the whole process"},
		{names: []string{"os.Exit"}, main: true, test: true, why: "return an error; only main exits"},
		{names: []string{"os.Stdin", "os.Stdout", "os.Stderr"}, main: true, test: true, why: "take the stream"},
		{names: []string{"fmt.Print", "fmt.Printf", "fmt.Println"}, test: true, why: "write to the io.Writer you were given"},
		{names: []string{"http.DefaultClient", "http.Get", "http.Post", "http.Head", "http.PostForm"}, test: true, why: "take a client, with a context and a bound"},
	}
}

func (t *tree) selector(f file, n *ast.SelectorExpr, names map[string]string) {
	name := strings.TrimPrefix(named(n, names), "net/")
	for _, b := range bans() {
		allowed := b.main && f.main() || b.test && (f.test || double(f.pkg)) || slices.Contains(b.only, f.pkg)
		if slices.Contains(b.names, name) && !allowed {
			t.offend(f, n.Pos(), "%s: %s", name, b.why)
		}
	}
}

// call holds what is not seen in a name alone.
func (t *tree) call(f file, n *ast.CallExpr, names map[string]string) {
	switch fn := n.Fun.(type) {
	case *ast.Ident:
		if (fn.Name == "print" || fn.Name == "println") && fn.Obj == nil {
			t.offend(f, n.Pos(), "%s: write to the io.Writer you were given", fn.Name)
		}
	case *ast.SelectorExpr:
		if name := named(fn, names); f.test || len(n.Args) == 0 || name != "errors.New" && name != "fmt.Errorf" {
			return
		}
		text, ok := n.Args[0].(*ast.BasicLit)
		if !ok {
			return
		}
		for _, grumble := range []string{"failed", "unable to", "could not", "couldn't", "cannot", "can't", "error "} {
			if strings.HasPrefix(strings.ToLower(strings.Trim(text.Value, "\"`")), grumble) {
				t.offend(f, text.Pos(), "an error text that begins %q: say what was being done, as a verb", strings.TrimSpace(grumble))
			}
		}
	}
}

// stored holds that a context is passed and never kept.
func (t *tree) stored(f file, n *ast.StructType, names map[string]string) {
	for _, field := range n.Fields.List {
		if sel, ok := field.Type.(*ast.SelectorExpr); ok && named(sel, names) == "context.Context" && !f.test {
			t.offend(f, field.Pos(), "a context in a struct: pass it as the first parameter")
		}
	}
}
