package arch

import (
	"go/ast"
	"slices"
	"strings"
)

// imports holds the direction of dependencies.
func (t *tree) imports(f file) {
	for _, spec := range f.ast.Imports {
		target := importPath(spec)
		if spec.Name != nil && spec.Name.Name == "." {
			t.offend(f, spec.Pos(), "%s is imported with a dot: name what you use", target)
		}
		if own, ok := strings.CutPrefix(target, t.module+"/"); ok {
			t.own(f, spec, own)
			continue
		}
		if first, _, _ := strings.Cut(target, "/"); strings.Contains(first, ".") {
			t.dependency(f, spec, target)
			continue
		}
		t.standard(f, spec, target)
	}
}

// own judges an import of another package of this module.
func (t *tree) own(f file, spec *ast.ImportSpec, target string) {
	if f.test && (target == f.pkg || double(target)) {
		return
	}
	if testsOnly(target) && !double(f.pkg) {
		t.offend(f, spec.Pos(), "%s is for tests only", target)
		return
	}
	from, known := levelOf(f.pkg)
	to, placed := levelOf(target)
	if double(target) && !double(f.pkg) && known && from < doublesFrom {
		t.offend(f, spec.Pos(), "%s is a double: tests use it, and what shows or measures the whole", target)
		return
	}
	switch {
	case !known:
		// Said once, of the package.
	case !placed:
		t.offend(f, spec.Pos(), "%s has no place in the table of levels", target)
	case inside(target, f.pkg), to < from, double(f.pkg) && testsOnly(target):
		// A house imports its rooms; all else goes down.
	case inside(f.pkg, target):
		t.offend(f, spec.Pos(), "%s is a room of %s and may not import it", f.pkg, target)
	case to == from:
		t.offend(f, spec.Pos(), "%s imports its peer %s (both level %d): meet in git, or declare an interface that cmd fills", f.pkg, target, to)
	default:
		t.offend(f, spec.Pos(), "%s (level %d) imports %s above it (level %d)", f.pkg, from, target, to)
	}
}

// dependency judges an import of another module.
func (t *tree) dependency(f file, spec *ast.ImportSpec, target string) {
	all := dependencies()
	i := slices.IndexFunc(all, func(d dependency) bool { return inside(target, d.path) })
	if i < 0 {
		t.offend(f, spec.Pos(), "%s is not a dependency that the project has decided on", target)
		return
	}
	d := all[i]
	if d.test && !f.test {
		t.offend(f, spec.Pos(), "%s is for tests only", target)
	}
	if len(d.only) > 0 && !slices.ContainsFunc(d.only, func(pkg string) bool { return inside(f.pkg, pkg) }) {
		t.offend(f, spec.Pos(), "%s belongs to %s alone", target, strings.Join(d.only, " and "))
	}
}

// standard judges an import of the standard library. Tests are free in it.
func (t *tree) standard(f file, spec *ast.ImportSpec, target string) {
	if f.test {
		return
	}
	if target == "testing" && !double(f.pkg) {
		t.offend(f, spec.Pos(), "testing is imported outside tests")
	}
	for _, r := range restrictions() {
		if r.path == target && (!r.main || !f.main()) && !slices.Contains(r.only, f.pkg) {
			t.offend(f, spec.Pos(), "%s: %s", target, r.why)
		}
	}
}
