package netdev

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Numbers of linux/if_link.h.
const (
	xdpExpectedFD     = 8 // IFLA_XDP_EXPECTED_FD, since Linux 5.7
	xdpUpdateIfAbsent = 1 << 0
	xdpReplace        = 1 << 4
)

// WhyNotAttached returns the driver's message about an XDP program that it rejects, "" if there is
// none. bpf_link reports only an errno; the message is in the extended acknowledgement of a netlink
// request (NLMSGERR_ATTR_MSG). So this tries to attach again by netlink, never replaces another
// program, and detaches at once if the attachment succeeds. program is a file descriptor; mode is
// XDP_FLAGS_DRV_MODE or XDP_FLAGS_SKB_MODE.
func WhyNotAttached(ifindex, program int, mode uint32) string {
	errno, message, err := setXDP(ifindex, program, -1, mode|xdpUpdateIfAbsent)
	if err != nil {
		return ""
	}
	if errno == 0 {
		_, _, _ = setXDP(ifindex, -1, program, mode|xdpReplace)
	}
	return message
}

// setXDP attaches a program, or detaches the current one (program -1). With expected not -1, it
// fails unless that program is attached.
func setXDP(ifindex, program, expected int, flags uint32) (errno unix.Errno, message string, err error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		return 0, "", err
	}
	defer s.Close()
	if err := s.SetExtAck(true); err != nil {
		return 0, "", err
	}
	r := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	link := nl.NewIfInfomsg(unix.AF_UNSPEC)
	link.Index = int32(ifindex)
	r.AddData(link)
	xdp := nl.NewRtAttr(unix.IFLA_XDP|unix.NLA_F_NESTED, nil)
	xdp.AddRtAttr(nl.IFLA_XDP_FD, nl.Uint32Attr(uint32(int32(program))))
	xdp.AddRtAttr(nl.IFLA_XDP_FLAGS, nl.Uint32Attr(flags))
	if expected >= 0 {
		xdp.AddRtAttr(xdpExpectedFD, nl.Uint32Attr(uint32(expected)))
	}
	r.AddData(xdp)
	if err := s.Send(r); err != nil {
		return 0, "", err
	}
	messages, _, err := s.Receive()
	if err != nil {
		return 0, "", err
	}
	for _, m := range messages {
		if m.Header.Type == unix.NLMSG_ERROR && m.Header.Seq == r.Seq {
			return parseAck(m.Data, m.Header.Flags)
		}
	}
	return 0, "", fmt.Errorf("attach an XDP program by netlink: no acknowledgement")
}

const nlmsgErrAttrMsg = 1 // NLMSGERR_ATTR_MSG of linux/netlink.h

// parseAck parses a netlink acknowledgement: the errno, the request (only its header with
// NLM_F_CAPPED), then attributes.
func parseAck(data []byte, flags uint16) (errno unix.Errno, message string, err error) {
	if len(data) < 4+unix.NLMSG_HDRLEN {
		return 0, "", fmt.Errorf("netlink acknowledgement of %d bytes", len(data))
	}
	errno = unix.Errno(-int32(binary.NativeEndian.Uint32(data)))
	if flags&unix.NLM_F_ACK_TLVS == 0 {
		return errno, "", nil
	}
	skip := unix.NLMSG_HDRLEN
	if flags&unix.NLM_F_CAPPED == 0 {
		skip = int(binary.NativeEndian.Uint32(data[4:]))
	}
	for rest := data[min(4+(skip+3)&^3, len(data)):]; len(rest) >= unix.SizeofRtAttr; {
		n := int(binary.NativeEndian.Uint16(rest))
		if n < unix.SizeofRtAttr || n > len(rest) {
			break
		}
		if binary.NativeEndian.Uint16(rest[2:]) == nlmsgErrAttrMsg {
			message = unix.ByteSliceToString(rest[unix.SizeofRtAttr:n])
		}
		rest = rest[min((n+3)&^3, len(rest)):]
	}
	return errno, message, nil
}
