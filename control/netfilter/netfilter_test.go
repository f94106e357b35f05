package netfilter

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// TestForwardingListsChainsOfForwardedPackets uses rules of nft, iptables-nft and iptables-legacy.
func TestForwardingListsChainsOfForwardedPackets(t *testing.T) {
	for _, test := range []struct {
		name     string
		commands []string
		want     []string
	}{
		{"nothing", nil, nil},
		{"chains without rules", []string{"nft add table ip t", "nft add chain ip t f { type filter hook forward priority 0; }", "iptables-legacy -S", "ip6tables-legacy -t nat -S"}, nil},
		{"chains not traversed by forwarded packets", []string{
			"nft add table inet t", "nft add chain inet t i { type filter hook input priority 0; policy drop; }", "nft add rule inet t i accept",
			"nft add chain inet t other", "nft add rule inet t other drop", "iptables-legacy -P INPUT DROP", "iptables-legacy -A INPUT -j ACCEPT"}, nil},
		{"rules and policies of nft", []string{
			"nft add table inet t", "nft add chain inet t f { type filter hook forward priority 0; policy drop; }",
			"nft add table ip nat", "nft add chain ip nat p { type nat hook postrouting priority 100; }", "nft add rule ip nat p masquerade",
			"nft add table ip6 t", "nft add chain ip6 t f { type filter hook forward priority 0; }", "nft add rule ip6 t f drop", "nft add rule ip6 t f accept",
			"nft add table netdev t", "nft add chain netdev t i { type filter hook ingress device lo priority 0; }", "nft add rule netdev t i drop"},
			[]string{"inet t f (policy drop)", "ip nat p (1 rules)", "ip6 t f (2 rules)", "netdev t i (1 rules)"}},
		{"rules of iptables", []string{"iptables-legacy -A FORWARD -p tcp --dport 25 -j DROP", "ip6tables-legacy -t nat -A POSTROUTING -j MASQUERADE"},
			[]string{"ip6tables nat POSTROUTING (rules)", "iptables filter FORWARD (rules)"}},
		{"policies of iptables", []string{"iptables-legacy -P FORWARD DROP", "ip6tables-legacy -P FORWARD DROP", "ip6tables-legacy -A FORWARD -j ACCEPT"},
			[]string{"ip6tables filter FORWARD (rules) (policy drop)", "iptables filter FORWARD (policy drop)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ns, err := lab.New("firewall")
			require.NoError(t, err)
			t.Cleanup(func() { ns.Close() })
			for _, line := range test.commands {
				name, args, _ := strings.Cut(line, " ")
				args, rest, block := strings.Cut(args, " {")
				all := strings.Fields(args)
				if block {
					all = append(all, "{"+rest)
				}
				if out, err := ns.Run(name, all...); err != nil {
					t.Fatalf("%s: %v: %s", line, err, out)
				}
			}
			var got []string
			require.NoError(t, ns.Do(func() error {
				chains, err := Forwarding()
				for _, c := range chains {
					got = append(got, c.String())
				}
				return err
			}))
			if slices.Sort(got); !slices.Equal(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}

// FuzzChain checks that parsers of malformed messages do not panic.
func FuzzChain(f *testing.F) {
	chain := rtnl.AppendAttr([]byte{unix.NFPROTO_IPV4, 0, 0, 0}, unix.NFTA_CHAIN_TABLE, []byte("t\x00"))
	hook := rtnl.AppendAttr(nil, unix.NFTA_HOOK_HOOKNUM, binary.BigEndian.AppendUint32(nil, 2))
	f.Add(rtnl.AppendAttr(chain, unix.NFTA_CHAIN_HOOK, hook), []byte{})
	f.Add([]byte{}, make([]byte, 200))
	f.Fuzz(func(t *testing.T, message, entries []byte) {
		_, _ = parseChain(message)
		for _, family := range legacyFamilies {
			info := tableInfo{ValidHooks: 0x1f}
			if len(entries) >= 4 {
				info.Underflow[2] = binary.NativeEndian.Uint32(entries)
			}
			family.chainsOf("filter", &info, entries)
		}
	})
}
