package arch

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// Vector kernels are written by a generator in the folder asm of their package,
// and committed. Here every generator runs again.
func TestKernelsAreOfTheirGenerators(t *testing.T) {
	tree := root(t)
	kernels := find(t, tree, func(name string) bool { return strings.HasSuffix(name, "_amd64.s") })
	if len(kernels) < 2 {
		t.Fatalf("found only %q", kernels)
	}
	for _, code := range kernels {
		pkg, stubs, out := path.Dir(code), strings.TrimSuffix(code, ".s")+".go", t.TempDir()
		cmd := exec.Command("go", "run", "./asm", "-pkg", path.Base(pkg),
			"-out", filepath.Join(out, path.Base(code)), "-stubs", filepath.Join(out, path.Base(stubs)))
		cmd.Dir = filepath.Join("../..", pkg)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %v\n%s", pkg, cmd, err, text)
			continue
		}
		for _, name := range []string{code, stubs} {
			want, err := os.ReadFile(filepath.Join(out, path.Base(name)))
			require.NoError(t, err)
			got, err := fs.ReadFile(tree, name)
			if name == stubs && !bytes.HasPrefix(got, []byte("// Code generated")) {
				continue // written by hand
			}
			if err != nil || !bytes.Equal(afterFirstLine(got), afterFirstLine(want)) {
				t.Errorf("%s is not what its generator writes: run make gen, and commit it (%v)", name, err)
			}
		}
	}
}

// afterFirstLine leaves the generator's command out.
func afterFirstLine(text []byte) []byte {
	_, rest, _ := bytes.Cut(text, []byte("\n"))
	return rest
}
