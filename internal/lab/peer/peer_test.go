package peer

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/ipsec/suite"
)

// Two peers back to back, left and right, with mirrored pairs.
func TestPeersTalk(t *testing.T) {
	left, right := newPeers(t)
	for _, s := range suite.All {
		for _, outside := range []string{"4", "6"} {
			for _, inside := range []string{"4", "6"} {
				for _, esn := range []bool{false, true} {
					name := fmt.Sprintf("%s %s-in-%s esn=%v", s.Name, inside, outside, esn)
					t.Run(name, func(t *testing.T) {
						pair := Pair{
							Suite: &s, Mode: Tunnel, In: RandomSA(&s, 0x1000), Out: RandomSA(&s, 0x2000), ESN: esn,
							Local: outer[outside][0].Addr(), Remote: outer[outside][1].Addr(),
							LocalNet: host(inner[inside][0]), RemoteNet: host(inner[inside][1]),
						}
						start := time.Now()
						if err := left.Configure(pair); err != nil {
							t.Fatal(err)
						}
						if err := right.Configure(pair.Mirror()); err != nil {
							t.Fatal(err)
						}
						conf := time.Since(start)
						start = time.Now()
						if out, err := left.Run("ping", "-c", "2", "-i", "0.01", "-W", "1", "-s", "1200", inner[inside][1].String()); err != nil {
							t.Error(out, err)
						}
						ping := time.Since(start)
						start = time.Now()
						if err := left.Exchange(netip.AddrPortFrom(inner[inside][1], EchoPort), 100000); err != nil {
							t.Error(err)
						}
						st, err := right.Stats()
						t.Log(conf, ping, time.Since(start), st, err)
					})
				}
			}
		}
	}
}

var outer = map[string][2]netip.Prefix{
	"4": {netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("192.0.2.2/24")},
	"6": {netip.MustParsePrefix("2001:db8::1/64"), netip.MustParsePrefix("2001:db8::2/64")},
}
var inner = map[string][2]netip.Addr{
	"4": {netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.2.0.1")},
	"6": {netip.MustParseAddr("fd01::1"), netip.MustParseAddr("fd02::1")},
}

func newPeers(t *testing.T) (left, right *Peer) {
	var ends [2]*lab.Namespace
	for i := range ends {
		var err error
		if ends[i], err = lab.New("ns"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ends[i].Close() })
	}
	if err := lab.Veth(lab.End{Namespace: ends[0], Name: "peer0"}, lab.End{Namespace: ends[1], Name: "peer0"}, lab.VethOptions{}); err != nil {
		t.Fatal(err)
	}
	var peers [2]*Peer
	for i := range peers {
		c := Config{Namespace: ends[i], Link: "peer0"}
		for _, f := range []string{"4", "6"} {
			c.Addresses = append(c.Addresses, outer[f][i])
			c.Inner = append(c.Inner, inner[f][i])
			c.Routes = append(c.Routes, Route{Dst: host(inner[f][1-i]), Source: inner[f][i]})
		}
		start := time.Now()
		var err error
		if peers[i], err = Start(c); err != nil {
			t.Fatal(err)
		}
		t.Log("up", time.Since(start))
		t.Cleanup(func() { peers[i].Close() })
	}
	return peers[0], peers[1]
}
