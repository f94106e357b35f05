package conformance

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
)

const ethernetLen = 14

// JudgeEngine compares an engine's result in a network with the rule. frame is the memory of the
// received frame, sent the frame to transmit, if any.
func (c *Case) JudgeEngine(n *testutil.Network, r batch.Result, frame, sent []byte) error {
	if r.Verdict != c.Verdict {
		return fmt.Errorf("%v, want %v", r.Verdict, c.Verdict)
	}
	if r.Verdict == batch.Hold && r.Adjacency() != n.Glean {
		return fmt.Errorf("held for adjacency %d, want %d", r.Adjacency(), n.Glean)
	}
	if r.Verdict.Action() != batch.ActionForward {
		if !bytes.Equal(frame, c.Frame) {
			return errors.New("a frame that is not forwarded was changed")
		}
		return nil
	}
	if want := c.forwarded()[0]; !bytes.Equal(sent, want) {
		return fmt.Errorf("the frame that leaves\n got  % x\n want % x", sent, want)
	}
	return nil
}

// JudgeRouter compares the frames from each port of a router, and its drops by reason, with the
// rule.
func (c *Case) JudgeRouter(sent [Ports][][]byte, drops [batch.NumReasons]uint64) error {
	var want [Ports][][]byte
	if out := c.forwarded(); out != nil {
		port := c.By
		if c.Verdict.Action() == batch.ActionForward {
			port = c.Verdict.Port()
		}
		want[port] = out
	}
	if c.Error != nil { // it goes back where the packet came from
		if len(sent[0]) == 0 {
			return fmt.Errorf("no ICMP error to the source")
		}
		if err := c.judgeError(sent[0][0]); err != nil {
			return err
		}
		sent[0] = sent[0][1:]
	}
	for port := range sent {
		for i := range max(len(sent[port]), len(want[port])) {
			switch {
			case i >= len(sent[port]):
				return fmt.Errorf("by port %d, frame %d is missing:\n want % x", port, i, want[port][i])
			case i >= len(want[port]):
				return fmt.Errorf("by port %d leaves what should not: % x", port, sent[port][i])
			case !bytes.Equal(sent[port][i], want[port][i]):
				return fmt.Errorf("by port %d, frame %d\n got  % x\n want % x", port, i, sent[port][i], want[port][i])
			}
		}
	}
	var count [batch.NumReasons]uint64
	if c.Verdict.Action() == batch.ActionDrop && c.Sent == nil { // fragmented packets are not dropped
		count[c.Verdict.Reason()] = 1
	}
	for r := range drops {
		if drops[r] != count[r] {
			return fmt.Errorf("%d packets were dropped as %v, want %d", drops[r], batch.Reason(r), count[r])
		}
	}
	return nil
}

// forwarded returns the transmitted frames, nil for none.
func (c *Case) forwarded() [][]byte {
	if c.Sent != nil || c.Verdict.Action() != batch.ActionForward {
		return c.Sent
	}
	return [][]byte{rewritten(c.Frame, c.Verdict.Port())}
}

// rewritten returns a frame as transmitted by a port: with new MAC addresses, a decremented TTL, a
// recomputed checksum, and no padding.
func rewritten(frame []byte, port uint16) []byte {
	p := frame[ethernetLen:]
	var f []byte
	if p[0]>>4 == 4 {
		f = testutil.Edit(frame[:ethernetLen+int(binary.BigEndian.Uint16(p[2:]))], 8, p[8]-1)
	} else {
		f = testutil.Edit(frame[:ethernetLen+40+int(binary.BigEndian.Uint16(p[4:]))], 7, p[7]-1)
	}
	return onLink(f, port)
}

// onLink writes the MAC addresses of a frame for a port.
func onLink(f []byte, port uint16) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(links[port].peer)<<16)
	copy(f, b[:6])
	binary.BigEndian.PutUint64(b[:], uint64(links[port].mac)<<16)
	copy(f[6:], b[:6])
	return f
}

// The maximum lengths of ICMP errors (RFC 1812 4.3.2.3, RFC 4443 2.4(c)).
const (
	maxError4 = 576
	maxError6 = 1280
)

// judgeError compares a frame with the expected ICMP error: from the router to the source, with as
// much of the received packet as fits.
func (c *Case) judgeError(f []byte) error {
	packet := c.Frame[ethernetLen:]
	var want []byte
	if packet[0]>>4 == 4 {
		quote := packet[:min(int(binary.BigEndian.Uint16(packet[2:])), maxError4-28)]
		want = append(c.message(), quote...)
		binary.BigEndian.PutUint16(want[2:], ^testutil.Sum(want))
		header := []byte{0x45, 0xc0 | packet[1]&0x1c, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0}
		binary.BigEndian.PutUint16(header[2:], uint16(20+len(want)))
		if len(f) >= ethernetLen+6 {
			copy(header[4:6], f[ethernetLen+4:]) // any identification
		}
		header = append(append(header, Router4.AsSlice()...), packet[12:16]...)
		binary.BigEndian.PutUint16(header[10:], ^testutil.Sum(header))
		want = append(append([]byte{12: 0x08, 13: 0}, header...), want...)
	} else {
		quote := packet[:min(40+int(binary.BigEndian.Uint16(packet[4:])), maxError6-48)]
		want = append(c.message(), quote...)
		header := []byte{0x60, 0, 0, 0, 0, 0, 58, 64}
		binary.BigEndian.PutUint16(header[4:], uint16(len(want)))
		header = append(append(header, Router6.AsSlice()...), packet[8:24]...)
		pseudo := append(bytes.Clone(header[8:]), 0, 0, byte(len(want)>>8), byte(len(want)), 0, 0, 0, 58)
		binary.BigEndian.PutUint16(want[2:], ^testutil.Sum(append(pseudo, want...)))
		want = append(append([]byte{12: 0x86, 13: 0xdd}, header...), want...)
	}
	if want = onLink(want, 0); !bytes.Equal(f, want) {
		return fmt.Errorf("the ICMP error\n got  % x\n want % x", f, want)
	}
	return nil
}

// message returns the ICMP header without a checksum.
func (c *Case) message() []byte {
	return binary.BigEndian.AppendUint32([]byte{c.Error.Type, c.Error.Code, 0, 0}, c.Error.Info)
}

// outcome names the fate of a packet that is not forwarded.
func (c *Case) outcome() string {
	var s string
	switch c.Verdict.Action() {
	case batch.ActionHold:
		return "held"
	case batch.ActionDrop:
		if c.Sent != nil {
			return "fragments"
		}
		s = "`" + c.Verdict.Reason().String() + "`"
	}
	if c.Error != nil {
		family := "ICMP"
		if c.Frame[ethernetLen]>>4 == 6 {
			family = "ICMPv6"
		}
		s += fmt.Sprintf(", %s %d/%d", family, c.Error.Type, c.Error.Code)
		if c.Error.Info != 0 {
			s += fmt.Sprintf(" (%d)", c.Error.Info)
		}
	}
	return s
}

// Asked returns the neighbor that the router must resolve for a held packet.
func (c *Case) Asked() netip.Addr {
	p := c.Frame[ethernetLen:]
	if p[0]>>4 == 4 {
		return netip.AddrFrom4([4]byte(p[16:20]))
	}
	return netip.AddrFrom16([16]byte(p[24:40]))
}
