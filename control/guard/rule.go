package guard

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Verdicts (linux/netfilter.h).
const (
	nfDrop   = 0
	nfAccept = 1
)

var rules = []struct {
	chain       string
	expressions [][]byte
}{
	{"forward", drop(inPorts(unix.NFT_META_IIFNAME))},
	{"forward", drop(inPorts(unix.NFT_META_OIFNAME))},
	{"input", drop(inPorts(unix.NFT_META_IIFNAME), protocol(unix.IPPROTO_ESP))},
	{"input", drop(inPorts(unix.NFT_META_IIFNAME), protocol(unix.IPPROTO_UDP),
		transport(2, 2), compare(unix.NFT_CMP_EQ, binary.BigEndian.AppendUint16(nil, portNATT)),
		transport(8, 4), compare(unix.NFT_CMP_NEQ, make([]byte, 4)), // an SPI; IKE has zeros there, and a keepalive nothing
	)},
}

// drop makes a rule that counts and drops what the conditions match.
func drop(conditions ...[]byte) [][]byte {
	return append(conditions, expression("counter"), expression("immediate",
		number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT),
		nested(unix.NFTA_IMMEDIATE_DATA, nested(unix.NFTA_DATA_VERDICT, number(unix.NFTA_VERDICT_CODE, nfDrop)))))
}

func expression(name string, attrs ...[]byte) []byte {
	return nested(unix.NFTA_LIST_ELEM, text(unix.NFTA_EXPR_NAME, name), nested(unix.NFTA_EXPR_DATA, attrs...))
}

func load(key uint32) []byte {
	return expression("meta", number(unix.NFTA_META_KEY, key), number(unix.NFTA_META_DREG, unix.NFT_REG_1))
}

// inPorts matches packets of which the interface's name is in the set.
func inPorts(key uint32) []byte {
	return append(load(key), expression("lookup",
		text(unix.NFTA_LOOKUP_SET, set), number(unix.NFTA_LOOKUP_SREG, unix.NFT_REG_1), number(unix.NFTA_LOOKUP_SET_ID, setID))...)
}

func protocol(number byte) []byte {
	return append(load(unix.NFT_META_L4PROTO), compare(unix.NFT_CMP_EQ, []byte{number})...)
}

func compare(op uint32, value []byte) []byte {
	return expression("cmp", number(unix.NFTA_CMP_SREG, unix.NFT_REG_1), number(unix.NFTA_CMP_OP, op),
		nested(unix.NFTA_CMP_DATA, attr(unix.NFTA_DATA_VALUE, value)))
}

// transport loads bytes at an offset of the transport header. A packet that ends before
// them does not match.
func transport(offset, length uint32) []byte {
	return expression("payload", number(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1), number(unix.NFTA_PAYLOAD_BASE, unix.NFT_PAYLOAD_TRANSPORT_HEADER),
		number(unix.NFTA_PAYLOAD_OFFSET, offset), number(unix.NFTA_PAYLOAD_LEN, length))
}
