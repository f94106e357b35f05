package netfilter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// hooks names the hooks of forwarded packets, by family and number.
var hooks = map[uint8]map[uint32]string{
	unix.NFPROTO_INET:   {0: "prerouting", 2: "forward", 4: "postrouting", 5: "ingress"},
	unix.NFPROTO_IPV4:   {0: "prerouting", 2: "forward", 4: "postrouting"},
	unix.NFPROTO_IPV6:   {0: "prerouting", 2: "forward", 4: "postrouting"},
	unix.NFPROTO_NETDEV: {0: "ingress", 1: "egress"},
}

// families names the families as nft(8) does.
var families = map[uint8]string{
	unix.NFPROTO_INET: "inet", unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6", unix.NFPROTO_NETDEV: "netdev",
}

// headerLen is the length of struct nfgenmsg in bytes: family, version, resource ID.
const headerLen = 4

// tables returns the nf_tables chains of forwarded packets, including those of iptables-nft.
func tables() (chains []Chain, err error) {
	conn, err := rtnl.DialFamily(unix.NETLINK_NETFILTER)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, nil // no netfilter in the kernel
	}
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	const kind = unix.NFNL_SUBSYS_NFTABLES << 8
	err = conn.Dump(rtnl.NewQuery(kind|unix.NFT_MSG_GETCHAIN, make([]byte, headerLen)), func(msg rtnl.Message) error {
		if msg.Type != kind|unix.NFT_MSG_NEWCHAIN {
			return nil
		}
		c, err := parseChain(msg.Data)
		same := func(other Chain) bool { return other.Table == c.Table && other.Name == c.Name }
		if err == nil && c.Hook != "" && !slices.ContainsFunc(chains, same) { // a restarted dump repeats chains
			chains = append(chains, c)
		}
		return err
	})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil // no nf_tables in the kernel
	}
	return chains, err
}

// parseChain parses an NFT_MSG_NEWCHAIN message. Hook is "" for hooks other than those in hooks.
func parseChain(data []byte) (c Chain, err error) {
	h, a := rtnl.Header(data, headerLen)
	if h == nil {
		return c, fmt.Errorf("chain message: %w", a.Err)
	}
	family := h[0]
	for a.Next() {
		switch a.Kind {
		case unix.NFTA_CHAIN_TABLE:
			c.Table = families[family] + " " + unix.ByteSliceToString(a.Value)
		case unix.NFTA_CHAIN_NAME:
			c.Name = unix.ByteSliceToString(a.Value)
		case unix.NFTA_CHAIN_POLICY:
			c.Drops = number(a.Value) == 0 // NF_DROP
		case unix.NFTA_CHAIN_USE:
			c.Rules = int(number(a.Value))
		case unix.NFTA_CHAIN_HOOK:
			if n, ok := hookOf(a.Value); ok {
				c.Hook = hooks[family][n]
			}
		}
	}
	if a.Err != nil {
		return c, fmt.Errorf("chain message: %w", a.Err)
	}
	return c, nil
}

// hookOf returns the hook number in an NFTA_CHAIN_HOOK attribute.
func hookOf(nested []byte) (n uint32, ok bool) {
	_, a := rtnl.Header(nested, 0)
	for a.Next() {
		if a.Kind == unix.NFTA_HOOK_HOOKNUM {
			n, ok = number(a.Value), true
		}
	}
	return n, ok
}

// number returns a big-endian 32-bit value, or the maximum if b has another length.
func number(b []byte) uint32 {
	if len(b) != 4 {
		return ^uint32(0)
	}
	return binary.BigEndian.Uint32(b)
}
