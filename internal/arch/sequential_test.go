package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// concurrent reports whether a file starts goroutines, or does pointer arithmetic that the race detector's build checks.
func (s *source) concurrent() (why string) {
	if slices.Contains(s.imports(), "unsafe") {
		return "imports unsafe"
	}
	if slices.Contains(s.imports(), "net/http/httptest") {
		return "imports net/http/httptest"
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			why = "has a go statement"
		case *ast.CallExpr:
			if e, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Go", "AfterFunc", "Parallel", "RunParallel"}, e.Sel.Name) {
				why = "calls " + e.Sel.Name
			}
		}
		return why == ""
	})
	return why
}

// checkSequential returns the reasons why packages need the race detector: goroutines of their files, their tests and
// the packages of this module that these import, and pointer arithmetic of their own.
func checkSequential(packages []string, all []*source) (problems []string) {
	files := map[string][]*source{}
	for _, s := range all {
		files[s.pkg()] = append(files[s.pkg()], s)
	}
	for _, p := range packages {
		if len(files[p]) == 0 {
			problems = append(problems, p+": no such package")
		}
		seen := map[string]bool{}
		var visit func(pkg string)
		visit = func(pkg string) {
			if seen[pkg] {
				return
			}
			seen[pkg] = true
			for _, s := range files[pkg] {
				if s.test() && pkg != p {
					continue
				}
				if why := s.concurrent(); why != "" && (pkg == p || why != "imports unsafe") {
					problems = append(problems, fmt.Sprintf("%s: %s %s, so `make test` has to run it with the race detector: remove it from SEQUENTIAL of the Makefile", p, s.path, why))
				}
				for _, i := range s.imports() {
					if inner, ok := strings.CutPrefix(i, module+"/"); ok {
						visit(inner)
					}
				}
			}
		}
		visit(p)
	}
	return problems
}

func TestPackagesWithoutTheRaceDetectorStartNoGoroutines(t *testing.T) {
	tree := root(t)
	makefile, err := fs.ReadFile(tree, "Makefile")
	require.NoError(t, err)
	packages := strings.Fields(makeVariable(string(makefile), "SEQUENTIAL"))
	if len(packages) == 0 {
		t.Fatal("the Makefile has no SEQUENTIAL")
	}
	for _, problem := range checkSequential(packages, sources(t, tree)) {
		t.Error(problem)
	}
}

func TestConcurrentPackagesAreFound(t *testing.T) {
	var all []*source
	for path, text := range map[string]string{
		"a/x.go":      "package a\n\nfunc A() { b() }\n",
		"b/x.go":      "package b\n\nfunc B() { go f() }\n",
		"c/x.go":      "package c\n\nimport _ \"" + module + "/b\"\n",
		"d/x_test.go": "package d\n\nfunc TestD() { t.Parallel() }\n",
		"e/x_test.go": "package e\n\nimport _ \"" + module + "/d\"\n",
		"f/x.go":      "package f\n\nimport _ \"unsafe\"\n",
		"g/x_test.go": "package g\n\nimport _ \"" + module + "/f\"\n",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
		require.NoError(t, err)
		all = append(all, &source{path, []byte(text), file})
	}
	for pkg, problems := range map[string]int{"a": 0, "b": 1, "c": 1, "d": 1, "e": 0, "f": 1, "g": 0, "gone": 1} {
		if found := checkSequential([]string{pkg}, all); len(found) != problems {
			t.Errorf("%s: %q", pkg, found)
		}
	}
}
