package arch

import (
	"go/doc"
	"path"
	"slices"
	"testing"
	"testing/fstest"
)

// withoutExample lists the public packages whose main use needs privileges or a device.
var withoutExample = map[string]string{
	"afxdp":             "AF_XDP sockets need root; its example only compiles",
	"dataplane/gpu":     "needs a GPU",
	"ipsec/device":      "key records are for GPU code",
	"lookup/device":     "needs a GPU",
	"control/addresses": "watches the host's addresses",
	"control/doctor":    "examines the host",
	"control/guard":     "nftables needs root",
	"control/mirror":    "changes of routes need root",
	"control/netfilter": "nftables needs root",
	"control/divert":    "netlink needs root",
	"control/pathmtu":   "raw sockets need root",
	"control/vmgenid":   "waits for the hypervisor",
	"control/xfrm":      "XFRM needs root",
}

// checkExamples wants a tested example in every public package.
func checkExamples(all []*source, without map[string]string) (problems []string) {
	tested := map[string]bool{}
	for _, s := range all {
		public := !matchesAny([]string{"internal/...", "cmd/...", "bench/..."}, s.pkg())
		if helper := slices.Contains([]string{"asm", "layout"}, path.Base(s.pkg())); !public || helper {
			continue
		}
		tested[s.pkg()] = tested[s.pkg()] || slices.ContainsFunc(doc.Examples(s.ast), func(e *doc.Example) bool { return e.Output != "" })
	}
	for pkg, has := range tested {
		switch _, excepted := without[pkg]; {
		case !has && !excepted:
			problems = append(problems, pkg+" has no example with output: show its main use")
		case has && excepted:
			problems = append(problems, pkg+" has an example, and needs no exception")
		}
	}
	for pkg := range without {
		if _, exists := tested[pkg]; !exists {
			problems = append(problems, "the exception "+pkg+" is no public package")
		}
	}
	return problems
}

func TestPublicPackagesHaveExamples(t *testing.T) {
	for _, problem := range checkExamples(sources(t, root(t)), withoutExample) {
		t.Error(problem)
	}
}

func TestMissingExamplesAreFound(t *testing.T) {
	const example = "package p_test\n\nimport \"fmt\"\n\nfunc Example() {\n\tfmt.Println(1)\n\t// Output: 1\n}\n"
	all := sources(t, fstest.MapFS{
		"a/a.go":            {Data: []byte("package a\n")},
		"b/b.go":            {Data: []byte("package b\n")},
		"b/example_test.go": {Data: []byte(example)},
		"c/c.go":            {Data: []byte("package c\n")},
		"internal/d/d.go":   {Data: []byte("package d\n")},
		"c/asm/main.go":     {Data: []byte("package main\n")},
	})
	got := checkExamples(all, map[string]string{"b": "unneeded", "c": "needed", "e": "unknown"})
	slices.Sort(got)
	want := []string{"a has no example with output: show its main use", "b has an example, and needs no exception", "the exception e is no public package"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
