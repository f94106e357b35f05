package config

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"regexp"

	"github.com/warproute/warproute/ipsec/suite"
)

// Limits of values of an SA.
const (
	minSPI          = 0x100   // lower ones are reserved (RFC 4303 section 2.1)
	maxReplayWindow = 4096    // packets, as in Linux
	maxSeconds      = 1 << 32 // of a lifetime, 136 years
)

// saName matches valid SA names. They need no quotes in logs, metrics and file names.
var saName = regexp.MustCompile(`^[a-zA-Z0-9][-_.a-zA-Z0-9]{0,63}$`)

// suites lists the names of all suites.
var suites = func() (names []string) {
	for _, s := range suite.All {
		names = append(names, s.Name)
	}
	return names
}()

// seen maps unique values of SAs to the index of the first SA with each.
type seen struct {
	names     map[string]int
	receivers map[receiver]int
	keys      map[[sha256.Size]byte]int
}

// receiver identifies an SA at its receiver (RFC 4301 section 4.1).
type receiver struct {
	direction Direction
	spi       uint32
	dst       netip.Addr
}

func (c *Config) checkSAs() (errs Errors) {
	s := seen{map[string]int{}, map[receiver]int{}, map[[sha256.Size]byte]int{}}
	for i := range c.IPsec.SAs {
		a := &c.IPsec.SAs[i]
		e := &entry{config: c, key: fmt.Sprintf("ipsec.sas[%d]", i)}
		e.checkName(a.Name)
		choice(e, "direction", a.Direction, directions)
		choice(e, "mode", a.Mode, saModes)
		choice(e, "df", a.DF, dfs)
		e.checkAddresses(a)
		e.checkKeys(a)
		e.checkNumbers(a)
		e.checkUnique(a, i, &s)
		errs = append(errs, e.errs...)
	}
	return errs
}

func (e *entry) checkName(name string) {
	switch {
	case name == "":
		e.missing("name", "add a name for policies, logs and metrics")
	case !saName.MatchString(name):
		e.fail("name", fmt.Sprintf("%q is not a valid name", name), "write up to 64 letters, digits and, after the first, any of - _ .")
	}
}

func (e *entry) checkAddresses(a *SA) {
	for _, x := range []struct {
		field string
		addr  netip.Addr
	}{{"src", a.Src}, {"dst", a.Dst}} {
		switch {
		case !x.addr.IsValid():
			e.missing(x.field, "add an IP address: src of the sender, dst of the receiver")
		case x.addr.Is4In6():
			e.fail(x.field, fmt.Sprintf("%v is an IPv4-mapped IPv6 address", x.addr), fmt.Sprintf("did you mean %v?", x.addr.Unmap()))
		case x.addr.IsUnspecified() && x.field == "src" && a.Direction == DirectionIn: // any sender
		case x.addr.Zone() != "" || x.addr.IsMulticast() || x.addr.IsUnspecified():
			e.fail(x.field, fmt.Sprintf("%v is not a unicast address without a zone", x.addr), "write one such as 192.0.2.1 or 2001:db8::1")
		}
	}
	if a.Src.IsValid() && a.Dst.IsValid() && a.Src.Unmap().Is4() != a.Dst.Unmap().Is4() {
		e.fail("dst", fmt.Sprintf("address families of %v and the source %v differ", a.Dst, a.Src), "write two IPv4 or two IPv6 addresses (inner packets can be of either family)")
	}
}

func (e *entry) checkNumbers(a *SA) {
	switch {
	case a.SPI == 0 && !e.isSet("spi"):
		e.missing("spi", "add the SPI at the receiver, such as 0x100")
	case a.SPI < minSPI:
		e.fail("spi", fmt.Sprintf("%#x is reserved", a.SPI), fmt.Sprintf("write an SPI from %#x to 0xffffffff", minSPI))
	}
	switch {
	case a.ReplayWindow < 0 || a.ReplayWindow > maxReplayWindow:
		e.fail("replay_window", fmt.Sprintf("%d is out of range", a.ReplayWindow),
			fmt.Sprintf("write a window from 64 to %d packets, or 0 to accept duplicates", maxReplayWindow))
	case a.ReplayWindow == 0 && a.ESN && a.Direction == DirectionIn:
		e.fail("replay_window", "extended sequence numbers need a replay window", fmt.Sprintf("write 64 to %d, or esn: false", maxReplayWindow))
	}
	if none := (Encap{}); (a.Encap != none || e.isSet("encap")) && (a.Encap.SrcPort == 0 || a.Encap.DstPort == 0) {
		e.fail("encap", fmt.Sprintf("sport %d, dport %d: 0 is not a port", a.Encap.SrcPort, a.Encap.DstPort), fmt.Sprintf("write two ports from 1 to 65535, usually %d", portNATT))
	}
	if port := a.Encap.DstPort; port != 0 && port != portNATT && a.Direction == DirectionIn {
		e.fail("encap", fmt.Sprintf("dport %d: ESP in UDP is received only on port %d", port, portNATT), fmt.Sprintf("write dport: %d, and configure the peer to send to it", portNATT))
	}
	for _, l := range []struct {
		unit              string
		soft, hard, limit uint64
	}{
		{"packets", a.Lifetime.Soft.Packets, a.Lifetime.Hard.Packets, 1<<64 - 1},
		{"bytes", a.Lifetime.Soft.Bytes, a.Lifetime.Hard.Bytes, 1<<64 - 1},
		{"seconds", a.Lifetime.Soft.Seconds, a.Lifetime.Hard.Seconds, maxSeconds},
	} {
		switch {
		case l.hard > l.limit:
			e.fail("lifetime."+l.unit, fmt.Sprintf("%d is out of range", l.hard), fmt.Sprintf("write a number up to %d, or 0 for no limit", l.limit))
		case l.soft > l.limit:
			e.fail("lifetime.soft."+l.unit, fmt.Sprintf("%d is out of range", l.soft), fmt.Sprintf("write a number up to %d, or 0 for no limit", l.limit))
		case l.hard != 0 && l.soft > l.hard:
			e.fail("lifetime.soft."+l.unit, fmt.Sprintf("soft limit %d exceeds the hard limit %d", l.soft, l.hard), "write a lower limit, which leaves time for rekeying")
		}
	}
}

// checkUnique compares the i-th SA with the previous ones.
func (e *entry) checkUnique(a *SA, i int, s *seen) {
	sas := e.config.IPsec.SAs
	where := func(first int, field string) string {
		return fmt.Sprintf("%q%s", sas[first].Name, e.config.inLine(fmt.Sprintf("ipsec.sas[%d].%s", first, field)))
	}
	if first, twice := s.names[a.Name]; !twice {
		s.names[a.Name] = i
	} else if a.Name != "" {
		e.fail("name", fmt.Sprintf("duplicate of %s", where(first, "name")), "choose a unique name for each SA")
	}
	to := receiver{a.Direction, a.SPI, a.Dst}
	if first, twice := s.receivers[to]; !twice {
		s.receivers[to] = i
	} else if a.SPI >= minSPI && a.Dst.IsValid() {
		e.fail("spi", fmt.Sprintf("SPI %#x to %v is already in use by %s", a.SPI, a.Dst, where(first, "spi")), "write another SPI, here and at the peer")
	}
	if !usesCounter(a.Suite) || a.Key.Len() == 0 {
		return
	}
	// One SA can be listed twice, as out and in, by a router that sends to itself.
	if first, twice := s.keys[a.Key.digest()]; !twice {
		s.keys[a.Key.digest()] = i
	} else if b := &sas[first]; a.Direction == b.Direction || a.SPI != b.SPI || a.Src != b.Src || a.Dst != b.Dst {
		e.fail(e.keyField("key", a.KeyFile), fmt.Sprintf("same key as %s: %s would reuse nonces, which reveals the plaintext", where(first, "name"), a.Suite),
			"generate a separate key for each SA, also for the two directions of a tunnel")
	}
}
