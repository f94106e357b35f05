package config

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"regexp"

	"github.com/warproute/warproute/ipsec/suite"
)

// What values of an association may be.
const (
	minSPI          = 0x100   // those below are reserved, RFC 4303 section 2.1
	maxReplayWindow = 4096    // packets, as in Linux
	maxSeconds      = 1 << 32 // of a lifetime: 136 years
)

// saName has no name that would need quotes in logs, metrics or names of files.
var saName = regexp.MustCompile(`^[a-zA-Z0-9][-_.a-zA-Z0-9]{0,63}$`)

// suites are the names of those that there are.
var suites = func() (names []string) {
	for _, s := range suite.All {
		names = append(names, s.Name)
	}
	return names
}()

// seen is what no two associations may have in common, with the place of the first.
type seen struct {
	names     map[string]int
	receivers map[receiver]int
	keys      map[[sha256.Size]byte]int
}

// receiver is how a receiver finds an association.
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
		e.lacks("name", "add one, by which policies, logs and metrics call it")
	case !saName.MatchString(name):
		e.wrong("name", fmt.Sprintf("%q cannot be a name", name), "write up to 64 letters, digits and, behind the first, any of - _ .")
	}
}

func (e *entry) checkAddresses(a *SA) {
	for _, x := range []struct {
		field string
		addr  netip.Addr
	}{{"src", a.Src}, {"dst", a.Dst}} {
		switch {
		case !x.addr.IsValid():
			e.lacks(x.field, "add an IP address: src is the sender's, dst the receiver's")
		case x.addr.Is4In6():
			e.wrong(x.field, fmt.Sprintf("%v is an IPv4 address in IPv6's form", x.addr), fmt.Sprintf("did you mean %v?", x.addr.Unmap()))
		case x.addr.IsUnspecified() && x.field == "src" && a.Direction == DirectionIn: // any sender
		case x.addr.Zone() != "" || x.addr.IsMulticast() || x.addr.IsUnspecified():
			e.wrong(x.field, fmt.Sprintf("%v is not the address of one host", x.addr), "write one such as 192.0.2.1 or 2001:db8::1")
		}
	}
	if a.Src.IsValid() && a.Dst.IsValid() && a.Src.Unmap().Is4() != a.Dst.Unmap().Is4() {
		e.wrong("dst", fmt.Sprintf("%v and the source, %v, are of two families", a.Dst, a.Src), "write two addresses of IPv4, or two of IPv6 (the packets in a tunnel may be of either)")
	}
}

func (e *entry) checkNumbers(a *SA) {
	switch {
	case a.SPI == 0 && !e.given("spi"):
		e.lacks("spi", "add the number by which the receiver finds the association, such as 0x100")
	case a.SPI < minSPI:
		e.wrong("spi", fmt.Sprintf("%#x: those below %#x are reserved", a.SPI, minSPI), fmt.Sprintf("write one from %#x to 0xffffffff", minSPI))
	}
	switch {
	case a.ReplayWindow < 0 || a.ReplayWindow > maxReplayWindow:
		e.wrong("replay_window", fmt.Sprintf("%d is out of range", a.ReplayWindow),
			fmt.Sprintf("write how many packets may overtake one, from 64 to %d, or 0 to accept repeated ones", maxReplayWindow))
	case a.ReplayWindow == 0 && a.ESN && a.Direction == DirectionIn:
		e.wrong("replay_window", "extended sequence numbers need one", fmt.Sprintf("write 64 to %d, or esn: false", maxReplayWindow))
	}
	if none := (Encap{}); (a.Encap != none || e.given("encap")) && (a.Encap.SrcPort == 0 || a.Encap.DstPort == 0) {
		e.wrong("encap", fmt.Sprintf("from port %d to port %d", a.Encap.SrcPort, a.Encap.DstPort), fmt.Sprintf("write two ports from 1 to 65535, usually %d", portNATT))
	}
	if port := a.Encap.DstPort; port != 0 && port != portNATT && a.Direction == DirectionIn {
		e.wrong("encap", fmt.Sprintf("to port %d: ESP in UDP is received at port %d alone", port, portNATT), fmt.Sprintf("write dport: %d, and have the peer send there", portNATT))
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
			e.wrong("lifetime."+l.unit, fmt.Sprintf("%d is out of range", l.hard), fmt.Sprintf("write a number up to %d, or 0 for no limit", l.limit))
		case l.soft > l.limit:
			e.wrong("lifetime.soft."+l.unit, fmt.Sprintf("%d is out of range", l.soft), fmt.Sprintf("write a number up to %d, or 0 for no limit", l.limit))
		case l.hard != 0 && l.soft > l.hard:
			e.wrong("lifetime.soft."+l.unit, fmt.Sprintf("%d is beyond the end of the lifetime, %d", l.soft, l.hard), "write less, so that there is time to replace the association")
		}
	}
}

// checkUnique compares the i-th association with those before it.
func (e *entry) checkUnique(a *SA, i int, s *seen) {
	sas := e.config.IPsec.SAs
	where := func(first int, field string) string {
		return fmt.Sprintf("%q%s", sas[first].Name, e.config.inLine(fmt.Sprintf("ipsec.sas[%d].%s", first, field)))
	}
	if first, twice := s.names[a.Name]; !twice {
		s.names[a.Name] = i
	} else if a.Name != "" {
		e.wrong("name", fmt.Sprintf("there is already %s", where(first, "name")), "give each association a name of its own")
	}
	to := receiver{a.Direction, a.SPI, a.Dst}
	if first, twice := s.receivers[to]; !twice {
		s.receivers[to] = i
	} else if a.SPI >= minSPI && a.Dst.IsValid() {
		e.wrong("spi", fmt.Sprintf("%#x to %v is already that of %s, and a receiver finds only one", a.SPI, a.Dst, where(first, "spi")), "write another, here and at the peer")
	}
	if !counts(a.Suite) || a.Key.Len() == 0 {
		return
	}
	// One association may stand here twice, sent and received: of a router that talks to itself.
	if first, twice := s.keys[a.Key.digest()]; !twice {
		s.keys[a.Key.digest()] = i
	} else if b := &sas[first]; a.Direction == b.Direction || a.SPI != b.SPI || a.Src != b.Src || a.Dst != b.Dst {
		e.wrong(e.keyField("key", a.KeyFile), fmt.Sprintf("it is also the key of %s: with %s both would use the same nonces, which gives away what they encrypt", where(first, "name"), a.Suite),
			"draw a key for each, also for the two directions of a tunnel")
	}
}
