package guard

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Netfilter verdicts (linux/netfilter.h).
const (
	nfDrop   = 0
	nfAccept = 1
)

// rule is a rule of a chain of the table.
type rule struct {
	chain       string
	expressions [][]byte
	xfrm        bool // it needs a kernel with XFRM
}

// allRules are the rules of the table, in order; the package comment shows them as nft(8) does.
var allRules = []rule{
	{chain: "forward", expressions: drop(inPorts(unix.NFT_META_IIFNAME))},
	{chain: "forward", expressions: drop(inPorts(unix.NFT_META_OIFNAME))},
	{chain: "input", expressions: drop(inPorts(unix.NFT_META_IIFNAME), protocol(unix.IPPROTO_ESP))},
	{chain: "input", expressions: drop(inPorts(unix.NFT_META_IIFNAME), protocol(unix.IPPROTO_UDP),
		transport(2, 2), compare(unix.NFT_CMP_EQ, binary.BigEndian.AppendUint16(nil, portNATT)),
		transport(8, 4), compare(unix.NFT_CMP_NEQ, make([]byte, 4)), // SPI; IKE has a zero marker here, and keepalives end before it (RFC 3948)
	)},
	{chain: "postrouting", expressions: drop(inPorts(unix.NFT_META_OIFNAME), transformed(), compare(unix.NFT_CMP_EQ, []byte{1})), xfrm: true},
}

// drop returns the expressions of a rule that counts and drops matching packets.
func drop(conditions ...[]byte) [][]byte {
	return append(conditions, expression("counter"), expression("immediate",
		number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT),
		nested(unix.NFTA_IMMEDIATE_DATA, nested(unix.NFTA_DATA_VERDICT, number(unix.NFTA_VERDICT_CODE, nfDrop)))))
}

func expression(name string, attrs ...[]byte) []byte {
	return nested(unix.NFTA_LIST_ELEM, text(unix.NFTA_EXPR_NAME, name), nested(unix.NFTA_EXPR_DATA, attrs...))
}

// load loads packet metadata into register 1.
func load(key uint32) []byte {
	return expression("meta", number(unix.NFTA_META_KEY, key), number(unix.NFTA_META_DREG, unix.NFT_REG_1))
}

// inPorts matches packets by interface name, NFT_META_IIFNAME or NFT_META_OIFNAME, in the set.
func inPorts(key uint32) []byte {
	return append(load(key), expression("lookup",
		text(unix.NFTA_LOOKUP_SET, set), number(unix.NFTA_LOOKUP_SREG, unix.NFT_REG_1), number(unix.NFTA_LOOKUP_SET_ID, setID))...)
}

// ofKind matches packets by the kind of an interface, such as vlan; key is metaIIFKind or metaOIFKind.
func ofKind(key uint32, kind string) []byte {
	return append(load(key), compare(unix.NFT_CMP_EQ, append([]byte(kind), make([]byte, nameLen-len(kind))...))...)
}

// protocol matches the transport protocol.
func protocol(number byte) []byte {
	return append(load(unix.NFT_META_L4PROTO), compare(unix.NFT_CMP_EQ, []byte{number})...)
}

// transformed loads 1 into register 1 if Linux is to transform the packet by XFRM: ESP, AH or IPComp.
func transformed() []byte {
	const rtXFRM = 4 // NFT_RT_XFRM
	return expression("rt", number(unix.NFTA_RT_DREG, unix.NFT_REG_1), number(unix.NFTA_RT_KEY, rtXFRM))
}

// compare compares register 1 with a value.
func compare(op uint32, value []byte) []byte {
	return expression("cmp", number(unix.NFTA_CMP_SREG, unix.NFT_REG_1), number(unix.NFTA_CMP_OP, op),
		nested(unix.NFTA_CMP_DATA, attr(unix.NFTA_DATA_VALUE, value)))
}

// transport loads bytes of the transport header into register 1. Shorter packets do not match.
func transport(offset, length uint32) []byte {
	return expression("payload", number(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1), number(unix.NFTA_PAYLOAD_BASE, unix.NFT_PAYLOAD_TRANSPORT_HEADER),
		number(unix.NFTA_PAYLOAD_OFFSET, offset), number(unix.NFTA_PAYLOAD_LEN, length))
}
