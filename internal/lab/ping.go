package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// PingOptions are the options of Ping; zero values are defaults.
type PingOptions struct {
	Count    int           // echo requests; 3
	Interval time.Duration // between an answer and the next request; none
	Timeout  time.Duration // for each answer; 1 s
	Size     int           // bytes of payload; 56
	TTL      int           // TTL or hop limit of the requests; Linux's
	Source   netip.Addr    // of the requests; Linux's choice
}

// PingResult counts the echo requests.
type PingResult struct {
	Sent, Received int
	Min, Mean, Max time.Duration // round trips of those received
}

// Ping sends ICMP or ICMPv6 echo requests from a namespace, one at a time. It returns the last error if
// any request gets no reply.
func Ping(from *Namespace, to netip.Addr, opts PingOptions) (PingResult, error) {
	p := pinger{family: icmpv4, to: to, opts: opts, id: int(rand.Uint32N(1 << 16))}
	if to.Is6() {
		p.family = icmpv6
	}
	p.opts.defaults()
	err := from.Do(func() (err error) {
		source := p.family.any
		if opts.Source.IsValid() {
			source = opts.Source.String()
		}
		p.conn, err = icmp.ListenPacket(p.family.network, source)
		return err
	})
	if err != nil {
		return PingResult{}, fmt.Errorf("ping %v from namespace %q: open a raw socket: %w", to, from.name, withHint(err))
	}
	defer p.conn.Close()
	if err := p.run(); err != nil {
		return p.result, fmt.Errorf("ping %v from namespace %q: %d of %d answered: %w",
			to, from.name, p.result.Received, p.result.Sent, err)
	}
	return p.result, nil
}

func (o *PingOptions) defaults() {
	if o.Count == 0 {
		o.Count = 3
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.Size == 0 {
		o.Size = 56
	}
}

// icmpFamily is ICMP or ICMPv6.
type icmpFamily struct {
	network, any   string
	protocol       int // IP protocol number, by which package icmp parses
	request, reply icmp.Type
}

var (
	icmpv4 = icmpFamily{"ip4:icmp", "0.0.0.0", 1, ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply}
	icmpv6 = icmpFamily{"ip6:ipv6-icmp", "::", 58, ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply}
)

type pinger struct {
	family icmpFamily
	conn   *icmp.PacketConn
	to     netip.Addr
	opts   PingOptions
	id     int
	result PingResult
}

func (p *pinger) run() (last error) {
	if err := p.setTTL(); err != nil {
		return fmt.Errorf("set TTL %d: %w", p.opts.TTL, err)
	}
	var sum time.Duration
	for seq := range p.opts.Count {
		start := time.Now()
		p.result.Sent++
		if err := p.echo(seq, start.Add(p.opts.Timeout)); err != nil {
			last = err
			continue
		}
		rtt := time.Since(start)
		sum += rtt
		if p.result.Received == 0 || rtt < p.result.Min {
			p.result.Min = rtt
		}
		p.result.Max = max(p.result.Max, rtt)
		p.result.Received++
		p.result.Mean = sum / time.Duration(p.result.Received)
		time.Sleep(p.opts.Interval)
	}
	return last
}

func (p *pinger) setTTL() error {
	switch {
	case p.opts.TTL == 0:
		return nil
	case p.to.Is6():
		return p.conn.IPv6PacketConn().SetHopLimit(p.opts.TTL)
	}
	return p.conn.IPv4PacketConn().SetTTL(p.opts.TTL)
}

// echo sends one request and waits for its reply, or for an ICMP error.
func (p *pinger) echo(seq int, deadline time.Time) error {
	data := make([]byte, p.opts.Size)
	for i := range data {
		data[i] = byte(i)
	}
	request := icmp.Message{Type: p.family.request, Body: &icmp.Echo{ID: p.id, Seq: seq, Data: data}}
	bytes, err := request.Marshal(nil) // the kernel fills in ICMPv6's checksum
	if err != nil {
		return err
	}
	if _, err := p.conn.WriteTo(bytes, &net.IPAddr{IP: p.to.AsSlice()}); err != nil {
		return err
	}
	if err := p.conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	buf := make([]byte, 1<<16)
	for {
		n, from, err := p.conn.ReadFrom(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("no reply to request %d within %v", seq, p.opts.Timeout)
		}
		if err != nil {
			return err
		}
		reply, err := icmp.ParseMessage(p.family.protocol, buf[:n])
		if err != nil {
			continue
		}
		switch body := reply.Body.(type) {
		case *icmp.Echo:
			if reply.Type == p.family.reply && body.ID == p.id && body.Seq == seq {
				if string(body.Data) != string(data) {
					return fmt.Errorf("the reply to request %d carries other data than was sent", seq)
				}
				return nil
			}
		case *icmp.DstUnreach, *icmp.TimeExceeded, *icmp.PacketTooBig, *icmp.ParamProb:
			if quotesEcho(quoted(body), p.to, p.id, seq) { // the socket receives errors about all packets of the namespace
				return &ICMPError{From: from, Type: reply.Type, Code: reply.Code}
			}
		}
	}
}

// quoted returns the packet that an ICMP error is about.
func quoted(body icmp.MessageBody) []byte {
	switch b := body.(type) {
	case *icmp.DstUnreach:
		return b.Data
	case *icmp.TimeExceeded:
		return b.Data
	case *icmp.PacketTooBig:
		return b.Data
	case *icmp.ParamProb:
		return b.Data
	}
	return nil
}

// quotesEcho reports whether a quoted packet is an echo request, or a later fragment to its destination.
func quotesEcho(b []byte, to netip.Addr, id, seq int) bool {
	var l4 []byte
	var proto byte
	later := false
	switch {
	case to.Is4() && len(b) >= 20 && b[0]>>4 == 4 && len(b) >= int(b[0]&15)*4:
		if [4]byte(b[16:20]) != to.As4() {
			return false
		}
		proto, l4, later = b[9], b[b[0]&15*4:], binary.BigEndian.Uint16(b[6:])&0x1fff != 0
	case to.Is6() && len(b) >= 40 && b[0]>>4 == 6:
		if [16]byte(b[24:40]) != to.As16() {
			return false
		}
		const fragment = 44
		if proto, l4 = b[6], b[40:]; proto == fragment && len(l4) >= 8 {
			proto, l4, later = l4[0], l4[8:], binary.BigEndian.Uint16(l4[2:])&^7 != 0
		}
	default:
		return false
	}
	if echo := map[byte]byte{1: 8, 58: 128}[proto]; echo == 0 || !later && (len(l4) < 8 || l4[0] != echo) {
		return false
	}
	return later || int(binary.BigEndian.Uint16(l4[4:])) == id && int(binary.BigEndian.Uint16(l4[6:])) == seq
}

// ICMPError is an ICMP or ICMPv6 error received instead of a reply.
type ICMPError struct {
	From net.Addr
	Type icmp.Type // an ipv4.ICMPType or ipv6.ICMPType
	Code int
}

func (e *ICMPError) Error() string {
	return fmt.Sprintf("%v answered: %v, code %d", e.From, e.Type, e.Code)
}
