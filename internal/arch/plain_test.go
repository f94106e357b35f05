package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// plain is what `make test` runs without the race detector: whole packages, and tests of all others by their names.
type plain struct {
	packages []string // patterns
	names    *regexp.Regexp
}

// makeVariable returns a variable of the Makefile, without dollar signs.
func makeVariable(makefile, name string) string {
	_, rest, _ := strings.Cut(makefile, "\n"+name+" := ")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.ReplaceAll(value, "$$", "")
}

func readPlain(makefile string) (p plain, err error) {
	p.packages = append(strings.Fields(makeVariable(makefile, "SEQUENTIAL")), strings.Fields(makeVariable(makefile, "PLAIN"))...)
	p.names, err = regexp.Compile(strings.ReplaceAll(makeVariable(makefile, "PLAIN_TESTS"), "^", ""))
	return p, err
}

// check returns the tests that do less with the race detector, or are not built with it, and do not run without it.
func (p plain) check(s *source) (problems []string) {
	if !s.test() || matchesAny(p.packages, s.pkg()) || strings.HasPrefix(s.pkg(), "internal/e2e") {
		return nil
	}
	without := bytes.HasPrefix(s.text, []byte("//go:build !race"))
	for _, d := range s.ast.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || p.names.MatchString(f.Name.Name) {
			continue
		}
		less := without && strings.HasPrefix(f.Name.Name, "Test")
		ast.Inspect(f, func(n ast.Node) bool {
			if e, ok := n.(*ast.SelectorExpr); ok {
				switch x, _ := e.X.(*ast.Ident); {
				case x == nil:
				case x.Name == "race", x.Name == "testing" && e.Sel.Name == "AllocsPerRun":
					less = true
				}
			}
			return true
		})
		if less {
			problems = append(problems, fmt.Sprintf("%s: %s does less with the race detector, and `make test` does not run it without: name it after PLAIN_TESTS of the Makefile, or add the package to PLAIN", s.path, f.Name.Name))
		}
	}
	return problems
}

func TestTestsThatTheRaceDetectorLimitsRunWithoutIt(t *testing.T) {
	tree := root(t)
	makefile, err := fs.ReadFile(tree, "Makefile")
	require.NoError(t, err)
	p, err := readPlain(string(makefile))
	require.NoError(t, err)
	if len(p.packages) == 0 || !p.names.MatchString("TestNothingAllocates") {
		t.Fatalf("PLAIN and PLAIN_TESTS of the Makefile: %+v", p)
	}
	for _, s := range sources(t, tree) {
		for _, problem := range p.check(s) {
			t.Error(problem)
		}
	}
}

func TestTestsWithoutTheirRunAreFound(t *testing.T) {
	p, err := readPlain("\nPLAIN := a\nPLAIN_TESTS := Alloc|^TestB$$$$\n")
	require.NoError(t, err)
	const text = "//go:build !race\n\npackage x\n\nfunc TestA() {}\n\nfunc TestB() {}\n\nfunc TestAllocA() {}\n"
	for _, c := range []struct {
		path, text string
		problems   int
	}{
		{"a/x_test.go", text, 0},
		{"b/x_test.go", text, 1},
		{"b/x_test.go", "package x\n\nfunc TestA() { testing.AllocsPerRun(1, nil) }\n\nfunc TestAlloc() { testing.AllocsPerRun(1, nil) }\n", 1},
		{"b/x_test.go", "package x\n\nfunc TestA() { _ = race.Enabled }\n", 1},
		{"b/x_test.go", "package x\n\nfunc TestA() {}\n", 0},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), c.path, c.text, parser.ParseComments)
		require.NoError(t, err)
		if problems := p.check(&source{c.path, []byte(c.text), file}); len(problems) != c.problems {
			t.Errorf("%s: %q", c.text, problems)
		}
	}
}
