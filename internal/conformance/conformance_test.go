package conformance

import (
	"bytes"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

const root = "../.."

func TestDocumentIsUpToDate(t *testing.T) {
	got, err := os.ReadFile(filepath.Join(root, "CONFORMANCE.md"))
	require.NoError(t, err)
	if !bytes.Equal(got, Markdown()) {
		t.Error("CONFORMANCE.md is out of date: run go generate ./internal/conformance and commit it")
	}
}

// Every rule that is kept has packets or tests, every rule that is not has a reason, and
// all have names by which they are found.
func TestRulesAreComplete(t *testing.T) {
	key := regexp.MustCompile(`^[a-z0-9]+/[a-z0-9-]+$`)
	keys := map[string]bool{}
	for _, c := range Chapters() {
		for _, r := range c.Rules {
			if keys[r.Key] || !key.MatchString(r.Key) || !strings.HasPrefix(r.Key, c.Key+"/") {
				t.Errorf("%s: a key of chapter %s that is not the only one of its name", r.Key, c.Key)
			}
			keys[r.Key] = true
			if r.Says == "" || r.Source == "" || r.Does == "" {
				t.Errorf("%s: says %q, by %q, does %q", r.Key, r.Says, r.Source, r.Does)
			}
			switch r.Status {
			case Kept, KeptByLinux:
				if len(r.Cases)+len(r.Tests) == 0 {
					t.Errorf("%s: nothing shows that it is kept", r.Key)
				}
			case Departs:
			default:
				t.Errorf("%s: status %q", r.Key, r.Status)
			}
			names := map[string]bool{}
			for _, p := range r.Cases {
				if names[p.Name] || p.Name == "" {
					t.Errorf("%s: two packets are named %q", r.Key, p.Name)
				}
				names[p.Name] = true
			}
		}
	}
}

// The named tests exist and do not skip themselves.
func TestNamedTestsExist(t *testing.T) {
	packages := map[string]*testFiles{}
	for _, r := range Rules() {
		tests := r.Tests
		if len(r.Cases) > 0 {
			tests = append([]string{"dataplane.TestConformance", "dataplane/cpu.TestConformance", "dataplane/gpu.TestConformance"}, tests...)
		}
		for _, test := range tests {
			pkg, name, _ := strings.Cut(test, ".")
			if packages[pkg] == nil {
				packages[pkg] = readTests(t, pkg)
			}
			function, entry, _ := strings.Cut(name, "/")
			if !packages[pkg].functions[function] {
				t.Errorf("%s: no test %s runs in %s", r.Key, function, pkg)
			}
			if entry != "" && !packages[pkg].strings[entry] {
				t.Errorf("%s: no test of %s is named %q", r.Key, pkg, entry)
			}
		}
	}
}

// testFiles are the tests of a package, and the strings in them.
type testFiles struct{ functions, strings map[string]bool }

// readTests reads those test files of a package that this platform builds without tags.
func readTests(t *testing.T, pkg string) *testFiles {
	t.Helper()
	found := &testFiles{map[string]bool{}, map[string]bool{}}
	dir := filepath.Join(root, pkg)
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("package %s has no tests (%v)", pkg, err)
	}
	for _, f := range files {
		if built, err := build.Default.MatchFile(dir, filepath.Base(f)); err != nil || !built {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") && !skips(n) {
					found.functions[n.Name.Name] = true
				}
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); err == nil {
					found.strings[s] = true
				}
			}
			return true
		})
	}
	return found
}

// skips reports whether a test can skip itself.
func skips(f *ast.FuncDecl) (does bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if s, is := n.(*ast.SelectorExpr); is && strings.HasPrefix(s.Sel.Name, "Skip") {
			x, is := s.X.(*ast.Ident)
			does = does || is && x.Name == "t"
		}
		return true
	})
	return does
}
