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
)

// Programs for the kernel are compiled by `make gen`, which needs clang, and
// committed, so that building needs Go alone. It leaves, beside them, the sums of
// sources and results as sha256sum writes them.
const sums = "bpf.sha256"

func TestObjectsAreOfTheirSources(t *testing.T) {
	tree := root(t)
	for _, problem := range stale(t, tree) {
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
		text, err := fs.ReadFile(tree, f)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != want {
			problems = append(problems, f+" is not the one that the committed objects were made with")
		}
	}
	return problems
}

// recorded returns a file's sum as the file of sums beside it has it.
func recorded(tree fs.FS, file string) (string, error) {
	list, err := fs.ReadFile(tree, path.Join(path.Dir(file), sums))
	if err != nil {
		return "", fmt.Errorf("%s has no sum: %w", file, err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(list)); lines.Scan(); {
		if sum, name, ok := strings.Cut(lines.Text(), "  "); ok && name == path.Base(file) {
			return sum, nil
		}
	}
	return "", fmt.Errorf("%s has no sum in %s beside it", file, sums)
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
