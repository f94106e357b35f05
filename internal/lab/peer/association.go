package peer

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"strings"

	"github.com/warproute/warproute/ipsec/suite"
)

// Mode is tunnel or transport mode.
type Mode string

const (
	Tunnel    Mode = "tunnel"
	Transport Mode = "transport"
)

// SA is a security association, of one direction.
type SA struct {
	SPI     uint32
	Key     []byte // of the cipher, followed by its salt
	AuthKey []byte
	Seq     uint64 // of the last packet; only with ESN more than 32 bits
}

// RandomSA returns an SA with random keys of a suite's lengths.
func RandomSA(s *suite.Suite, spi uint32) SA {
	sa := SA{SPI: spi, Key: make([]byte, s.KeyLen+s.SaltLen), AuthKey: make([]byte, s.AuthKeyLen)}
	rand.Read(sa.Key)
	rand.Read(sa.AuthKey)
	return sa
}

// Pair is an SA in each direction, with policies that require them.
type Pair struct {
	Suite *suite.Suite
	Mode  Mode
	In    SA
	Out   SA

	// The addresses of ESP itself. In transport mode they are also the packets'.
	Local, Remote netip.Addr
	// The protected networks, in tunnel mode; of either family.
	LocalNet, RemoteNet netip.Prefix

	ESN bool
	UDP bool // encapsulated, from port NATPort to NATPort
}

// Mirror returns the pair of the other end.
func (p Pair) Mirror() Pair {
	p.In, p.Out = p.Out, p.In
	p.Local, p.Remote = p.Remote, p.Local
	p.LocalNet, p.RemoteNet = p.RemoteNet, p.LocalNet
	return p
}

// commands appends the commands of `ip -batch` that add the pair. The reqid joins the policies to the SAs.
func (p Pair) commands(b *strings.Builder, reqid int) {
	local, remote := p.LocalNet, p.RemoteNet
	if p.Mode == Transport {
		local, remote = host(p.Local), host(p.Remote)
	}
	for _, d := range []struct {
		name             string
		sa               SA
		seq              string
		from, to         netip.Addr
		fromNet, intoNet netip.Prefix
	}{
		{"out", p.Out, "replay-oseq", p.Local, p.Remote, local, remote},
		{"in", p.In, "replay-seq", p.Remote, p.Local, remote, local},
	} {
		fmt.Fprintf(b, "xfrm state add src %v dst %v proto esp spi %#x reqid %d mode %s %s replay-window 64", d.from, d.to, d.sa.SPI, reqid, p.Mode, algorithms(p.Suite, d.sa))
		if d.sa.Seq != 0 {
			fmt.Fprintf(b, " %s %d %s-hi %d", d.seq, uint32(d.sa.Seq), d.seq, d.sa.Seq>>32)
		}
		if p.ESN {
			b.WriteString(" flag esn")
		}
		if p.Mode == Tunnel {
			b.WriteString(" flag af-unspec") // else inner packets must be of the outer family
		}
		if p.UDP {
			fmt.Fprintf(b, " encap espinudp %d %d %v", NATPort, NATPort, netip.IPv4Unspecified())
		}
		fmt.Fprintf(b, "\nxfrm policy add src %v dst %v dir %s priority 2 tmpl src %v dst %v proto esp reqid %d mode %s\n",
			d.fromNet, d.intoNet, d.name, d.from, d.to, reqid, p.Mode)
	}
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// algorithms returns a suite and its keys in the syntax of ip-xfrm(8).
func algorithms(s *suite.Suite, sa SA) string {
	ciphers := map[suite.Cipher]string{
		suite.Null:     "enc ecb(cipher_null)",
		suite.CBC:      "enc cbc(aes)",
		suite.CTR:      "enc rfc3686(ctr(aes))",
		suite.GCM:      "aead rfc4106(gcm(aes))",
		suite.ChaCha20: "aead rfc7539esp(chacha20,poly1305)",
	}
	hashes := map[suite.Auth]string{suite.SHA1: "hmac(sha1)", suite.SHA256: "hmac(sha256)", suite.SHA512: "hmac(sha512)"}
	cipher := ciphers[s.Cipher] + " " + key(sa.Key)
	if s.Auth == suite.Combined {
		return fmt.Sprintf("%s %d", cipher, 8*s.ICVLen)
	}
	return fmt.Sprintf("%s auth-trunc %s %s %d", cipher, hashes[s.Auth], key(sa.AuthKey), 8*s.ICVLen)
}

func key(k []byte) string {
	if len(k) == 0 {
		return `""`
	}
	return fmt.Sprintf("%#x", k)
}
