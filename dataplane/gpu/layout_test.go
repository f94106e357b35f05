package gpu

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/packet"
)

// The numbers of layout.h and packet.h are Go's, where Go exports them, and every
// reason that an engine may give is there.
func TestDevicesKnowTheLayout(t *testing.T) {
	defined := map[string]uint64{}
	for _, file := range []string{"kernel/layout.h", "kernel/packet.h", "kernel/extension.h", "kernel/job.h", "kernel/mailbox.h"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^#define (\w+) (0x[0-9a-f]+|\d+)u?\b`).FindAllStringSubmatch(string(text), -1) {
			if defined[m[1]], err = strconv.ParseUint(m[2], 0, 32); err != nil {
				t.Fatal(err)
			}
		}
	}
	same := func(name string, want uint64) {
		if got, ok := defined[name]; !ok || got != want {
			t.Errorf("%s is %#x in the kernels' headers (%v), %#x in Go", name, got, ok, want)
		}
		delete(defined, name)
	}
	for name, want := range map[string]batch.Action{"DROP": batch.ActionDrop, "FORWARD": batch.ActionForward, "HOLD": batch.ActionHold} {
		same("ACTION_"+name, uint64(want))
	}
	same("MAX_PORTS", batch.MaxPorts)
	for name, want := range map[string]batch.Reason{
		"NONE": batch.Unprocessed, "TOO_SHORT": batch.TooShort, "ETHER_TYPE": batch.EtherType, "IP_VERSION": batch.IPVersion,
		"HEADER_LENGTH": batch.HeaderLength, "BAD_LENGTH": batch.BadLength, "BAD_CHECKSUM": batch.BadChecksum,
		"IP_OPTIONS": batch.IPOptions, "TTL_EXPIRED": batch.TTLExpired, "SOURCE_MARTIAN": batch.SourceMartian,
		"DEST_MARTIAN": batch.DestMartian, "FRAGMENT_OVERLAP": batch.FragmentOverlap, "ROUTING_HEADER": batch.RoutingHeader,
		"EXTENSION_HEADERS": batch.ExtensionHeaders, "NO_ROUTE": batch.NoRoute, "BLACKHOLE": batch.Blackhole,
		"UNREACHABLE": batch.Unreachable, "PROHIBIT": batch.Prohibit, "LOCAL_DELIVERY": batch.LocalDelivery,
		"NO_PORT": batch.NoPort, "PORT_DOWN": batch.PortDown, "MTU_EXCEEDED": batch.MTUExceeded,
		"XFRM_IN_STATE_PROTO_ERROR": batch.XfrmInStateProtoError, "XFRM_IN_STATE_MODE_ERROR": batch.XfrmInStateModeError,
		"XFRM_IN_DUMMY": batch.XfrmInDummy, "XFRM_IN_ECN_ERROR": batch.XfrmInECNError, "XFRM_OUT_STATE_PROTO_ERROR": batch.XfrmOutStateProtoError,
		"REVERSE_PATH": batch.ReversePath,
	} {
		same("DROP_"+name, uint64(want))
	}
	for name, want := range map[string]fib.Kind{
		"NONE": fib.KindNone, "FORWARD": fib.KindForward, "LOCAL": fib.KindLocal, "BLACKHOLE": fib.KindBlackhole,
		"UNREACHABLE": fib.KindUnreachable, "PROHIBIT": fib.KindProhibit, "NO_PORT": fib.KindNoPort,
	} {
		same("KIND_"+name, uint64(want))
	}
	same("GROUP_BUCKETS", fib.Buckets)
	for name, want := range map[string]fib.ReversePath{"ANY": fib.AnySource, "LOOSE": fib.LooseSource, "STRICT": fib.StrictSource} {
		same(name+"_SOURCE", uint64(want))
	}
	for name, want := range map[string]packet.Protocol{
		"HOP_BY_HOP": packet.HopByHop, "TCP": packet.TCP, "UDP": packet.UDP, "ROUTING": packet.Routing,
		"FRAGMENT": packet.Fragment, "AH": packet.AH, "DEST_OPTIONS": packet.DestOptions,
	} {
		same("PROTOCOL_"+name, uint64(want))
	}
	for name, want := range map[string]uint64{
		"KIND": 3, "PLAIN": uint64(cpu.Plain), "SETTLED": uint64(cpu.Settled), "SEAL": uint64(cpu.Seal), "OPEN": uint64(cpu.Open),
		"EXTENDED": jobExtended, "TRANSPORT": jobTransport, "SUM": jobSum, "DETAIL": jobDetail, "LINES": jobLines, "FORGED": cpu.Forged,
	} {
		same("JOB_"+name, want)
	}
	same("GATEWAY_SHARED", gatewayShared)
	same("FORWARD_SHARED", shared)
	same("JOBS", jobsSize)
	same("HEADS", headsSize)
	same("HALVES", halvesSize)
	same("HALF_LEN", 8*halfWords)
	same("HALF_AT", halfAt/4)
	same("ANSWER_BYTES", 8*answerWords)
	same("HEAD_QUADS", headQuads)
	same("STOP", stopSize)
	same("TAGS", tags)
	same("UNIT_LANES", unitWords)
	same("UNIT_FRAMES", unitFrames)
	same("QUAD_FRAMES", quadFrames)
	same("QUAD_BYTES", quadBytes)
	same("ETHERTYPE_IPV4", uint64(packet.EtherTypeIPv4))
	same("ETHERTYPE_IPV6", uint64(packet.EtherTypeIPv6))
	same("ETHERNET_LEN", packet.EthernetLen)
	same("IPV4_LEN", packet.IPv4Len)
	same("IPV6_LEN", packet.IPv6Len)
	// Package packet keeps the others to itself; TestKernelCodeAgreesWithTheCPUEngine
	// meets them.
	for _, name := range []string{
		"ETHERTYPE_ETHERNET", "PROTOCOL_IPV4", "PROTOCOL_IPV6", "PROTOCOL_GRE", "PROTOCOL_DCCP", "PROTOCOL_SCTP",
		"PROTOCOL_UDPLITE", "MAX_EXTENSION_HEADERS", "HEAD_LEN", "HEAD_IP", "HEAD_REWRITTEN",
	} {
		delete(defined, name)
	}
	if len(defined) > 0 {
		t.Errorf("the kernels' headers define what Go does not: %v", defined)
	}
}
