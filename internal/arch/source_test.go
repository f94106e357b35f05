package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

const module = "github.com/warproute/warproute"

// source is a Go file of the module.
type source struct {
	path string // from the module's root
	text []byte
	ast  *ast.File
}

// pkg is the package's path within the module: its directory.
func (s *source) pkg() string { return path.Dir(s.path) }

func (s *source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s *source) generated() bool { return ast.IsGenerated(s.ast) }

// root is the module's root, above this directory.
func root(t *testing.T) fs.FS {
	t.Helper()
	tree := os.DirFS("../..")
	if _, err := fs.Stat(tree, "go.mod"); err != nil {
		t.Fatalf("this test reads the source from two directories above its own: %v", err)
	}
	return tree
}

// find returns the files of a tree with names that are wanted, but for those
// below testdata and hidden directories.
func find(t *testing.T, tree fs.FS, wanted func(name string) bool) (files []string) {
	t.Helper()
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() && name != "." && (base == "testdata" || base[0] == '.') {
			return fs.SkipDir
		}
		if !d.IsDir() && wanted(name) {
			files = append(files, name)
		}
		return nil
	})
	require.NoError(t, err)
	return files
}

// sources parses every Go file of a tree.
func sources(t *testing.T, tree fs.FS) (all []*source) {
	t.Helper()
	for _, name := range find(t, tree, func(name string) bool { return strings.HasSuffix(name, ".go") }) {
		text, err := fs.ReadFile(tree, name)
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		all = append(all, &source{name, text, file})
	}
	return all
}

// imports returns the paths that a file imports.
func (s *source) imports() []string {
	paths := make([]string, len(s.ast.Imports))
	for i, spec := range s.ast.Imports {
		paths[i] = strings.Trim(spec.Path.Value, `"`)
	}
	return paths
}

// matches reports whether a path is the pattern, or below it if it ends in "...".
func matches(pattern, p string) bool {
	prefix, all := strings.CutSuffix(pattern, "...")
	if !all {
		return pattern == p
	}
	return strings.HasPrefix(p+"/", prefix)
}

func matchesAny(patterns []string, p string) bool {
	for _, pattern := range patterns {
		if matches(pattern, p) {
			return true
		}
	}
	return false
}
