package arch

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/warproute/warproute/internal/require"
)

// Programs for the kernel are compiled by `make gen`, which needs clang, and
// committed, so that building needs Go alone. It leaves, beside them, the sums of
// sources and results as sha256sum writes them.
const sums = "bpf.sha256"

func TestObjectsAreOfTheirSources(t *testing.T) {
	tree := root(t)
	for _, problem := range append(stale(t, tree), stalePTX(t, tree)...) {
		t.Errorf("%s: run make gen, and commit what it writes", problem)
	}
}

// stale lists the programs that are not in their directory's sums, or are other
// than when these were taken.
func stale(t *testing.T, tree fs.FS) (problems []string) {
	t.Helper()
	files := find(t, tree, func(name string) bool {
		return strings.HasSuffix(name, ".bpf.c") || strings.HasSuffix(name, "_bpfel.o") || strings.HasSuffix(name, "_bpfel.go")
	})
	for _, f := range files {
		want, err := recorded(tree, f)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		if sum(t, tree, f) != want {
			problems = append(problems, f+" is not the one that the committed objects were made with")
		}
	}
	return problems
}

func sum(t *testing.T, tree fs.FS, file string) string {
	t.Helper()
	text, err := fs.ReadFile(tree, file)
	require.NoError(t, err)
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// recorded returns a file's sum as the file of sums beside it has it.
func recorded(tree fs.FS, file string) (string, error) {
	list, err := readSums(tree, path.Join(path.Dir(file), sums))
	if err != nil {
		return "", fmt.Errorf("%s has no sum: %w", file, err)
	}
	want, ok := list[file]
	if !ok {
		return "", fmt.Errorf("%s has no sum in %s beside it", file, sums)
	}
	return want, nil
}

// readSums returns what a file of sums lists, by paths from the module's root.
func readSums(tree fs.FS, file string) (map[string]string, error) {
	list, err := fs.ReadFile(tree, file)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(list)); lines.Scan(); {
		if sum, name, ok := strings.Cut(lines.Text(), "  "); ok {
			all[path.Join(path.Dir(file), name)] = sum
		}
	}
	return all, nil
}

// stalePTX lists the files that are other than when scripts/ptx.sh compiled kernels. It
// leaves sums beside the PTX, of the PTX and of all that it was made of: a header that
// is included newly changes the file that includes it.
func stalePTX(t *testing.T, tree fs.FS) (problems []string) {
	t.Helper()
	for _, kernels := range find(t, tree, func(name string) bool { return strings.HasSuffix(name, ".cu") }) {
		ptx := strings.TrimSuffix(kernels, ".cu") + ".ptx"
		list, err := readSums(tree, ptx+".sha256")
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s has no sums: %v", kernels, err))
			continue
		}
		for _, f := range []string{kernels, ptx} {
			if list[f] == "" {
				problems = append(problems, fmt.Sprintf("%s has no sum in %s.sha256", f, ptx))
			}
		}
		for f, want := range list {
			if _, err := fs.Stat(tree, f); err != nil || sum(t, tree, f) != want {
				problems = append(problems, fmt.Sprintf("%s is not the one that %s was made with", f, ptx))
			}
		}
	}
	return problems
}

func TestStaleObjectsAreFound(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	tree := fstest.MapFS{"a/x.bpf.c": file(""), "a/x_bpfel.o": file(""), "a/" + sums: file(empty + "  x.bpf.c\n" + empty + "  x_bpfel.o\n")}
	if got := stale(t, tree); len(got) != 0 {
		t.Errorf("fresh, and yet %q", got)
	}
	tree["a/x.bpf.c"] = file("changed")
	tree["b/c/y.bpf.c"] = file("")
	if got := stale(t, tree); len(got) != 2 {
		t.Errorf("one changed and one without a sum: %q", got)
	}
}

func TestStalePTXIsFound(t *testing.T) {
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, test := range []struct {
		name, file, text string // what is changed
		want             string // part of the one problem
	}{
		{name: "nothing"},
		{"the source", "a/x.cu", "changed", "a/x.cu is not the one that a/x.ptx was made with"},
		{"the PTX", "a/x.ptx", "changed", "a/x.ptx is not the one"},
		{"a header elsewhere", "b/y.h", "changed", "b/y.h is not the one"},
		{"the sums lack the PTX", "a/x.ptx.sha256", empty + "  x.cu\n", "a/x.ptx has no sum"},
		{"the sums have what is gone", "a/x.ptx.sha256", empty + "  x.cu\n" + empty + "  x.ptx\n" + empty + "  z.h\n", "a/z.h is not the one"},
		{"kernels without sums", "c/z.cu", "", "c/z.cu has no sums"},
	} {
		tree := fstest.MapFS{"a/x.cu": {}, "a/x.ptx": {}, "b/y.h": {}}
		tree["a/x.ptx.sha256"] = &fstest.MapFile{Data: []byte(empty + "  x.cu\n" + empty + "  x.ptx\n" + empty + "  ../b/y.h\n")}
		if test.file != "" {
			tree[test.file] = &fstest.MapFile{Data: []byte(test.text)}
		}
		got := strings.Join(stalePTX(t, tree), "; ")
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}
