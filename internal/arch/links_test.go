package arch

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/warproute/warproute/internal/require"
)

var (
	link    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#+ +(.*?)\s*$`)
	markup  = regexp.MustCompile("\\[([^\\]]*)\\]\\([^)]*\\)|[`*]")
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestLinksBetweenDocumentsResolve checks the files and the #anchors of all Markdown links.
func TestLinksBetweenDocumentsResolve(t *testing.T) {
	tree := root(t)
	problems, checked := brokenLinks(t, tree)
	for _, problem := range problems {
		t.Error(problem)
	}
	if checked < 20 {
		t.Errorf("only %d links found", checked)
	}
}

func brokenLinks(t *testing.T, tree fs.FS) (problems []string, checked int) {
	t.Helper()
	anchors := map[string]map[string]bool{}
	documents := find(t, tree, func(name string) bool { return strings.HasSuffix(name, ".md") })
	for _, name := range documents {
		anchors[name] = map[string]bool{}
		for _, line := range prose(t, tree, name) {
			if m := heading.FindStringSubmatch(line); m != nil {
				anchors[name][unused(anchors[name], slug(m[1]))] = true
			}
		}
	}
	for _, name := range documents {
		for _, line := range prose(t, tree, name) {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				checked++
				file, anchor, hasAnchor := strings.Cut(m[1], "#")
				target := name
				if file != "" {
					target = path.Join(path.Dir(name), file)
				}
				if _, err := fs.Stat(tree, target); err != nil {
					problems = append(problems, fmt.Sprintf("%s: link to %s: no such file", name, m[1]))
				} else if hasAnchor && !anchors[target][anchor] {
					problems = append(problems, fmt.Sprintf("%s: link to %s: no such heading", name, m[1]))
				}
			}
		}
	}
	return problems, checked
}

// prose returns the lines of a document outside fenced code blocks.
func prose(t *testing.T, tree fs.FS, name string) (lines []string) {
	t.Helper()
	text, err := fs.ReadFile(tree, name)
	require.NoError(t, err)
	fenced := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return lines
}

// slug returns the anchor of a heading, as GitHub derives it.
func slug(heading string) string {
	text := markup.ReplaceAllString(heading, "$1")
	return strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
}

// unused numbers repeated anchors, as GitHub does.
func unused(used map[string]bool, anchor string) string {
	next := anchor
	for n := 1; used[next]; n++ {
		next = fmt.Sprintf("%s-%d", anchor, n)
	}
	return next
}

func TestBrokenLinksAreFound(t *testing.T) {
	tree := fstest.MapFS{
		"README.md": {Data: []byte("# Read me\n[a](docs/a.md) [b](docs/b.md) [c](docs/a.md#the-second-heading) [d](#missing)\n[e](#read-me)\n" +
			"```\n[f](gone.md)\n```\n[g](https://example.com/x#y) [h](docs/a.md#twice-1)")},
		"docs/a.md": {Data: []byte("# The `second` heading\n## Twice\n## Twice\n[up](../README.md#read-me) [self](a.md#third)\n")},
	}
	problems, checked := brokenLinks(t, tree)
	got := strings.Join(problems, "\n")
	if want := "README.md: link to docs/b.md: no such file\nREADME.md: link to #missing: no such heading\ndocs/a.md: link to a.md#third: no such heading"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if checked != 8 {
		t.Errorf("%d links checked, want 8", checked)
	}
}

var namedTest = regexp.MustCompile("`([a-z0-9/]+)\\.(Test\\w+)`")

// TestNamedTestsExist checks the tests that documents name, such as `afxdp.TestSteer`.
func TestNamedTestsExist(t *testing.T) {
	tree := root(t)
	defined := map[string]bool{}
	for _, s := range sources(t, tree) {
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				defined[s.pkg()+"."+f.Name.Name] = true
			}
		}
	}
	for _, name := range find(t, tree, func(name string) bool { return strings.HasSuffix(name, ".md") }) {
		for _, line := range prose(t, tree, name) {
			for _, m := range namedTest.FindAllStringSubmatch(line, -1) {
				if !defined[m[1]+"."+m[2]] {
					t.Errorf("%s: no test %s.%s", name, m[1], m[2])
				}
			}
		}
	}
}
