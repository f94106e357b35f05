package config

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warproute/warproute/internal/require"
)

func TestLanesAreRead(t *testing.T) {
	c, err := Parse("f", []byte(onePort+`lanes:
  - name: voice
    match: [{dscp: [46, 48]}, {protocol: udp, dport: 3784-3785, plain: true}, {protocol: vrrp}]
    deadline: 50us
    share: 30
  - {name: rest}
`))
	require.NoError(t, err)
	want := []Lane{
		{"voice", []LaneMatch{
			{DSCP: []int{46, 48}, SrcPorts: AnyPort, DstPorts: AnyPort},
			{Protocol: 17, SrcPorts: AnyPort, DstPorts: PortRange{3784, 3785}, Plain: true},
			{Protocol: 112, SrcPorts: AnyPort, DstPorts: AnyPort},
		}, 50 * time.Microsecond, 30},
		{"rest", nil, time.Millisecond, 0},
	}
	if diff := cmp.Diff(want, c.ActiveLanes()); diff != "" {
		t.Errorf("lanes (-want +got):\n%s", diff)
	}
}

func TestInvalidLanesAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ lanes, want string }{
		"no name":            {"[{deadline: 1ms}]", "lanes[0] has no name"},
		"two of a name":      {"[{name: a, match: [{plain: true}]}, {name: a}]", `lanes[1].name: duplicate of "a"`},
		"match in the last":  {"[{name: a, match: [{plain: true}]}]", "lanes[0].match: the last lane takes the packets that match no other"},
		"no match":           {"[{name: a}, {name: b}]", "lanes[0] has no match"},
		"five lanes":         {"[" + strings.Repeat("{name: a, match: [{plain: true}]}, ", 4) + "{name: b}]", "lanes: 5 exceed the limit of 4"},
		"short deadline":     {"[{name: a, deadline: 1us}]", "lanes[0].deadline: 1µs is out of range"},
		"long deadline":      {"[{name: a, deadline: 2s}]", "lanes[0].deadline: 2s is out of range"},
		"shares":             {"[{name: a, share: 60, match: [{plain: true}]}, {name: b, share: 50}]", "lanes[1].share: 50: the shares of all lanes are 110 percent"},
		"negative share":     {"[{name: a, share: -1}]", "lanes[0].share: -1"},
		"DSCP":               {"[{name: a, match: [{dscp: [46, 64]}]}, {name: b}]", "lanes[0].match[0].dscp[1]: 64 is not a DSCP"},
		"ports of any":       {"[{name: a, match: [{dport: 53}]}, {name: b}]", "lanes[0].match[0].dport: ports need a protocol with ports"},
		"ports of ICMP":      {"[{name: a, match: [{protocol: icmp, sport: 8}]}, {name: b}]", "lanes[0].match[0].sport: ports need a protocol with ports"},
		"unknown key":        {"[{name: a, match: [{port: 53}]}, {name: b}]", `unknown key "port" in lanes[0].match[0]`},
		"match is a mapping": {"[{name: a, match: {plain: true}}, {name: b}]", "lanes[0].match must be a list"},
		"too many matches":   {"[{name: a, match: [" + strings.Repeat("{plain: true}, ", 65) + "{plain: true}]}, {name: b}]", "more than 64 matches"},
	} {
		text := onePort + "lanes: " + strings.ReplaceAll(c.lanes, "}, ", "},\n  ") + "\n"
		if _, err := Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A gateway has two lanes by default, as the sample shows, another router none.
func TestDefaultLanes(t *testing.T) {
	if lanes := Default("a").ActiveLanes(); lanes != nil {
		t.Errorf("a router without IPsec has the lanes %+v", lanes)
	}
	c := Default("a")
	c.IPsec.Source = SourceXFRM
	text, err := os.ReadFile("../../configs/full.yaml")
	require.NoError(t, err)
	sample, err := Parse("full.yaml", regexp.MustCompile(`(?m)^( *)#([^ ]|  )`).ReplaceAll(text, []byte("$1$2")))
	require.NoError(t, err)
	if diff := cmp.Diff(c.ActiveLanes(), sample.Lanes); diff != "" || len(sample.Lanes) != 2 {
		t.Errorf("the sample differs from the defaults (-default +sample):\n%s", diff)
	}
}
