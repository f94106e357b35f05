package drivers

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// A driver that is in the table has a source and names; its limits are possible.
func TestDriversHaveSources(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range All {
		if d.Name == "" || d.Hardware == "" || d.Source == "" || seen[d.Name] {
			t.Errorf("incomplete, or twice: %+v", d)
		}
		seen[d.Name] = true
		none := d.Native == Version{}
		if none && (d.ZeroCopy != Version{} || d.MultiBuffer != Version{} || d.MTU != 0) || d.NoRedirect && !none {
			t.Errorf("%s has limits of an XDP support that it does not have", d.Name)
		}
		if !none && d.ZeroCopy != (Version{}) && !d.ZeroCopy.Since(d.Native) {
			t.Errorf("%s has zero-copy before native XDP", d.Name)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		kernel, since Version
		want          bool
	}{
		{Version{6, 1}, Version{5, 10}, true}, {Version{6, 12}, Version{6, 12}, true}, {Version{6, 12}, Version{6, 13}, false},
		{Version{7, 0}, Version{6, 14}, true}, {Version{5, 19}, Version{6, 0}, false}, {Version{6, 1}, Version{}, false},
	} {
		if got := c.kernel.Since(c.since); got != c.want {
			t.Errorf("%v since %v: %v", c.kernel, c.since, got)
		}
	}
}

func TestMaxMTU(t *testing.T) {
	d, ok := Find("i40e")
	if !ok || d.MaxMTU(Version{6, 4}, true) != 0 || d.MaxMTU(Version{6, 1}, true) != 3046 || d.MaxMTU(Version{6, 4}, false) != 3046 {
		t.Errorf("got %+v, %v", d, ok)
	}
	if d, ok := Find("unknown"); ok || d.MaxMTU(Version{6, 4}, false) != 0 {
		t.Errorf("an unknown driver: %+v", d)
	}
}

var update = flag.Bool("update", false, "write the table of docs/nics.md")

// docs/nics.md has the table of drivers. To write it: go test ./internal/drivers -update
func TestDocumentHasTheTable(t *testing.T) {
	const file, begin, end = "../../docs/nics.md", "<!-- drivers: generated from internal/drivers -->\n", "<!-- end of drivers -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no table of drivers", file)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+Table()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != Table() {
		t.Errorf("the table of %s is not that of the package: run go test ./internal/drivers -update", file)
	}
}
