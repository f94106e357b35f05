package document

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const fence = "```"

func TestParseFindsMarkedBlocks(t *testing.T) {
	text := strings.ReplaceAll(`# How-to
~~~sh
ignored
~~~
## Steps
1. Write a file:

~~~yaml file gw1,gw2:/etc/a.yaml
a: 1
~~~
~~~sh run gw1 host2
show
~~~
~~~text output
one
...
~~~
## End
~~~yaml file /b
~~~
~~~sh run background
sleep 9
~~~
`, "~~~", fence)
	got, err := Parse(text)
	want := []Step{
		{Line: 8, Section: "Steps", Kind: File, Hosts: []string{"gw1", "gw2"}, Path: "/etc/a.yaml", Text: "a: 1\n"},
		{Line: 11, Section: "Steps", Hosts: []string{"gw1", "host2"}, Text: "show\n", Output: "one\n...\n"},
		{Line: 19, Section: "End", Kind: File, Path: "/b"},
		{Line: 21, Section: "End", Kind: Background, Hosts: []string{}, Text: "sleep 9\n"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestParseReportsMistakes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{fence + "sh run gw1 background now\n" + fence, "unknown marking"},
		{fence + "yaml run gw1\n" + fence, "unknown marking"},
		{fence + "yaml file :/etc/a\n" + fence, "unknown marking"},
		{fence + "yaml file gw1:a\n" + fence, "unknown marking"},
		{fence + "sh rum gw1\n" + fence, "unknown marking"},
		{fence + "text output\na\n" + fence, "output of no block"},
		{fence + "yaml file gw1:/a\n" + fence + "\n" + fence + "text output\na\n" + fence, "does not print"},
		{fence + "sh run\n", "does not end"},
	} {
		if _, err := Parse(c.text); !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestCompareIgnoresNumbersOnly(t *testing.T) {
	const printed = "NAME   PACKETS\nsa 0xc86f3ea5 from 10.7.0.2   1,234 packets, 1.5ms\nend 0.2.0 c86f3ea5_i\nnet: #2, up for 00:10:09\n"
	for _, c := range []struct {
		want string
		same bool
	}{
		{"NAME PACKETS\nsa 0x12345678 from 10.7.0.2 9 packets, 31.25ms", true},
		{"NAME PACKETS\n...\nend 0.2.0 00000001_i", true},
		{"sa 0x12345678 from...", true},
		{"sa 0x12345678 from 10.7.0.3 9 packets, 31.25ms", false},
		{"sa 0x12345678 from 10.7.0.2 9 bytes, 31.25ms", false},
		{"end 0.3.0 00000001_i", false},
		{"end 0.2.0 00000001_i\nNAME PACKETS", false},
		{"sa", false},
		{"net: #1, up for 01:00:00", true},
		{"net: #a, up for 00:10:09", false},
	} {
		if err := Compare(printed, c.want); (err == nil) != c.same {
			t.Errorf("%q: %v", c.want, err)
		}
	}
}

// recorder is a host that prints scripts.
type recorder struct {
	did   []string
	fails int // of the next checks
}

func (r *recorder) Run(script string) (string, error) {
	r.did = append(r.did, "run "+script)
	if r.fails--; r.fails >= 0 {
		return "not yet", nil
	}
	return script, nil
}

func (r *recorder) Start(script string) error {
	r.did = append(r.did, "start "+script)
	return nil
}

func (r *recorder) Write(path, text string) error {
	r.did = append(r.did, "write "+path+" "+text)
	return nil
}

func TestFollowDoesStepsOfSections(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.md")
	text := strings.ReplaceAll("## A\n~~~sh run\na\n~~~\n## B\n~~~yaml file x:/f\nb\n~~~\n~~~sh run x\nc\n~~~\n~~~text output\nc\n~~~\n## C\n~~~sh run background\nd\n~~~\n", "~~~", fence)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to string
		here, x  []string
	}{
		{"", "", []string{"run a\n", "start d\n"}, []string{"write /f b\n", "run c\n", "run c\n"}},
		{"B", "", []string{"start d\n"}, []string{"write /f b\n", "run c\n", "run c\n"}},
		{"", "A", []string{"run a\n"}, nil},
		{"B", "B", nil, []string{"write /f b\n", "run c\n", "run c\n"}},
	} {
		here, x := &recorder{}, &recorder{fails: 1}
		Follow(t, file, c.from, c.to, map[string]Host{"": here, "x": x})
		if diff := cmp.Diff([2][]string{c.here, c.x}, [2][]string{here.did, x.did}); diff != "" {
			t.Errorf("from %q to %q: %s", c.from, c.to, diff)
		}
	}
}
