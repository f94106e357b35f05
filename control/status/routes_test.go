package status

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	direct    = Route{Prefix: "192.0.2.0/24", Type: "forward", Paths: []Path{{Port: "lan0", Weight: 1}}}
	multipath = Route{Prefix: "2001:db8::/32", Type: "forward", Paths: []Path{
		{Via: "fe80::1", Port: "lan0", Weight: 1}, {Via: "fe80::2", Port: "wan0", Weight: 3, Dead: true}}}
	blackhole = Route{Prefix: "10.0.0.0/8", Type: "blackhole"}
)

func TestRouteTable(t *testing.T) {
	var b strings.Builder
	table, err := NewRouteTable(&b)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []Route{direct, multipath, blackhole} {
		if err := table.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	want := `PREFIX                      TYPE         NEXT HOP
192.0.2.0/24                forward      direct on lan0
2001:db8::/32               forward      fe80::1 on lan0 weight 1, fe80::2 on wan0 weight 3 (dead)
10.0.0.0/8                  blackhole
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNeighborTable(t *testing.T) {
	var b strings.Builder
	WriteNeighbors(&b, []Neighbor{{"192.0.2.1", "lan0", "02:00:00:00:00:01", "reachable"}, {"fe80::2", "wan0", "", "incomplete"}})
	want := `ADDRESS    PORT  MAC                STATE
192.0.2.1  lan0  02:00:00:00:00:01  reachable
fe80::2    wan0  -                  incomplete
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAnswerTable(t *testing.T) {
	var b strings.Builder
	WriteAnswers(&b, []Answer{{"192.0.2.7", true, direct}, {"2001:db8::1", true, multipath}, {"10.1.1.1", true, blackhole}, {Address: "203.0.113.1"}})
	want := `ADDRESS      PREFIX         TYPE       NEXT HOP  PORT
192.0.2.7    192.0.2.0/24   forward    direct    lan0
2001:db8::1  2001:db8::/32  forward    fe80::1   lan0 weight 1
                                       fe80::2   wan0 weight 3
10.1.1.1     10.0.0.0/8     blackhole  -         -
203.0.113.1  -              no route   -         -
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRouteJSONKeys(t *testing.T) {
	got, err := json.Marshal(Answer{"192.0.2.7", true, direct})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"address":"192.0.2.7","found":true,"prefix":"192.0.2.0/24","type":"forward","paths":[{"port":"lan0","weight":1}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
