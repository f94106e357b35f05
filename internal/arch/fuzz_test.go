package arch

import (
	"io/fs"
	"path"
	"regexp"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

var fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\)`)

// Every fuzz target has a corpus beside it, small enough to be run with the tests, and no corpus is of a
// target that is gone.
func TestFuzzTargetsHaveCorpora(t *testing.T) {
	const most = 64 // inputs
	tree, targets := root(t), map[string]bool{}
	for _, s := range sources(t, tree) {
		if !s.test() {
			continue
		}
		text, err := fs.ReadFile(tree, s.path)
		require.NoError(t, err)
		for _, m := range fuzzTarget.FindAllSubmatch(text, -1) {
			corpus := path.Join(s.pkg(), "testdata/fuzz", string(m[1]))
			targets[corpus] = true
			inputs, err := fs.ReadDir(tree, corpus)
			if n := len(inputs); err != nil || n == 0 || n > most {
				t.Errorf("%s: %d inputs, want 1 to %d (%v)", corpus, n, most, err)
			}
		}
	}
	if len(targets) < 22 {
		t.Errorf("%d fuzz targets, want 22 or more", len(targets))
	}
	for _, pattern := range []string{"*/testdata/fuzz/*", "*/*/testdata/fuzz/*"} {
		all, err := fs.Glob(tree, pattern)
		require.NoError(t, err)
		for _, corpus := range all {
			if !targets[corpus] {
				t.Errorf("%s is of no target", corpus)
			}
		}
	}
}
