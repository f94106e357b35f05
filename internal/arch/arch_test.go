package arch

import (
	"bytes"
	"fmt"
	"go/format"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// rule is a check of single files: it returns what a file breaks.
type rule struct {
	name  string
	check func(*source) []string
}

var rules = []rule{
	{"imports", checkImports},
	{"modules", checkModules},
	{"unsafe", checkUnsafe},
	{"format", checkFormat},
	{"generated", checkGenerated},
	{"logs", checkLogs},
}

func TestSourceKeepsTheRules(t *testing.T) {
	all := sources(t, root(t))
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, s := range all {
				for _, problem := range r.check(s) {
					t.Errorf("%s: %s", s.path, problem)
				}
			}
		})
	}
	t.Run("package comments", func(t *testing.T) {
		for _, problem := range undocumented(all) {
			t.Error(problem)
		}
	})
}

// checkImports holds a file that is not a test to its package's row.
func checkImports(s *source) (problems []string) {
	if s.test() {
		return nil // tests compare with whatever they need
	}
	for _, row := range imports {
		if !matches(row.pkg, s.pkg()) {
			continue
		}
		for _, p := range s.imports() {
			p, ours := strings.CutPrefix(p, module+"/")
			if ours && !matchesAny(row.may, p) {
				problems = append(problems, fmt.Sprintf("imports %s, which its row does not list (%s)", p, row.reason))
			}
		}
		return problems
	}
	return []string{"no row in the import table is for " + s.pkg() + ": add one, with its reason"}
}

// checkModules holds a file to the rows of the modules that it imports.
func checkModules(s *source) (problems []string) {
	for _, p := range s.imports() {
		first, _, _ := strings.Cut(p, "/")
		if p != "C" && !strings.Contains(first, ".") || strings.HasPrefix(p, module+"/") {
			continue // the standard library's, or ours
		}
		i := slices.IndexFunc(modules, func(m moduleRow) bool { return matches(m.path+"/...", p) })
		switch {
		case i < 0:
			problems = append(problems, fmt.Sprintf("imports %s, which no row of the module table has: add one, with its reason", p))
		case s.test() && slices.Contains(modules[i].by, tests), matchesAny(modules[i].by, s.pkg()):
		default:
			problems = append(problems, fmt.Sprintf("imports %s, which is for %v (%s)", p, modules[i].by, modules[i].reason))
		}
	}
	return problems
}

// checkUnsafe keeps unsafe where readers look for it.
func checkUnsafe(s *source) []string {
	name := strings.TrimSuffix(strings.TrimSuffix(s.path, ".go"), "_test")
	if slices.Contains(s.imports(), "unsafe") && !strings.HasSuffix(name, "_unsafe") && !s.generated() {
		return []string{"imports unsafe: move what needs it to a file whose name ends in _unsafe.go"}
	}
	return nil
}

func checkFormat(s *source) []string {
	formatted, err := format.Source(s.text)
	if err != nil || !bytes.Equal(formatted, s.text) {
		return []string{"is not as gofmt writes it: run gofmt -w on it"}
	}
	return nil
}

// checkGenerated wants Go's marker on what bpf2go writes, so that tools and
// reviewers pass over it.
func checkGenerated(s *source) []string {
	if strings.HasSuffix(s.path, "_bpfel.go") && !s.generated() {
		return []string{`has no line "// Code generated ... DO NOT EDIT."`}
	}
	return nil
}

// undocumented lists the packages of which no file has a package comment.
func undocumented(all []*source) (problems []string) {
	documented := map[string]bool{}
	var packages []string
	for _, s := range all {
		if s.test() && strings.HasSuffix(s.ast.Name.Name, "_test") {
			continue
		}
		if _, seen := documented[s.pkg()]; !seen {
			documented[s.pkg()] = false
			packages = append(packages, s.pkg())
		}
		begin := "Package " + s.ast.Name.Name
		if s.ast.Name.Name == "main" {
			begin = "Command "
		}
		if strings.HasPrefix(s.ast.Doc.Text(), begin) {
			documented[s.pkg()] = true
		}
	}
	for _, p := range packages {
		if !documented[p] {
			problems = append(problems, fmt.Sprintf("package %s has no comment that begins with its name", p))
		}
	}
	return problems
}

// A rule that nothing can break is none: each of these breaks one.
func TestRulesCatchWhatBreaksThem(t *testing.T) {
	tests := []struct {
		name, file, text string
		rule             string
		want             string // part of the problem; "" for none
	}{
		{"upward import", "batch/a.go", `import "` + module + `/dataplane"`, "imports", "imports dataplane"},
		{"downward import", "fib/a.go", `import "` + module + `/batch"`, "imports", ""},
		{"import within a listed tree", "bench/x/a.go", `import "` + module + `/dataplane/cpu"`, "imports", ""},
		{"tests import anything", "batch/a_test.go", `import "` + module + `/dataplane"`, "imports", ""},
		{"package without a row", "newcomer/a.go", "", "imports", "no row"},
		{"cmd wires all", "cmd/warproute/a.go", `import "` + module + `/afxdp"`, "imports", ""},
		{"module beyond its fence", "dataplane/a.go", `import "github.com/cilium/ebpf/link"`, "modules", "XDP programs"},
		{"module within its fence", "afxdp/a.go", `import "github.com/cilium/ebpf/link"`, "modules", ""},
		{"module of tests in code", "fib/a.go", `import "pgregory.net/rapid"`, "modules", "[tests]"},
		{"module of tests in tests", "fib/a_test.go", `import "pgregory.net/rapid"`, "modules", ""},
		{"unknown module", "fib/a.go", `import "example.com/x"`, "modules", "no row"},
		{"namesake of a module", "fib/a.go", `import "golang.org/x/system"`, "modules", "no row"},
		{"cgo", "afxdp/a.go", `import "C"`, "modules", "only Go"},
		{"standard library", "fib/a.go", `import "net/netip"`, "modules", ""},
		{"unsafe", "afxdp/ring.go", `import "unsafe"`, "unsafe", "_unsafe.go"},
		{"unsafe in a test", "afxdp/ring_test.go", `import "unsafe"`, "unsafe", "_unsafe.go"},
		{"unsafe in its file", "afxdp/ring_unsafe.go", `import "unsafe"`, "unsafe", ""},
		{"unsafe in its test file", "afxdp/ring_unsafe_test.go", `import "unsafe"`, "unsafe", ""},
		{"spaces for a tab", "fib/a.go", "func f() {\n    _ = 1\n}", "format", "gofmt"},
		{"generated file without the marker", "afxdp/x_bpfel.go", "", "generated", "Code generated"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := fstest.MapFS{tt.file: &fstest.MapFile{Data: []byte("package p\n\n" + tt.text + "\n")}}
			if tt.text == "" {
				tree[tt.file].Data = []byte("package p\n")
			}
			s := sources(t, tree)[0]
			i := slices.IndexFunc(rules, func(r rule) bool { return r.name == tt.rule })
			got := strings.Join(rules[i].check(s), "; ")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	bare := fstest.MapFS{"p/a.go": &fstest.MapFile{Data: []byte("// Helpers.\npackage p\n")}}
	if got := undocumented(sources(t, bare)); len(got) != 1 {
		t.Errorf("a package without a comment: %q", got)
	}
}
