package strongswan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab/labtest"
)

// rekey triggers a rekeying of the tunnel and waits until packets leave by another SA.
func (n *network) rekey(what string, do func()) {
	n.t.Helper()
	before := n.outbound()
	do()
	n.eventually("rekeyed "+what, func() error {
		if now := n.outbound(); len(now) != 1 || now[0] == before[0] {
			return fmt.Errorf("packets leave by %#x, before by %#x", now, before)
		}
		return nil
	})
}

// outbound returns the SPIs of outbound SAs.
func (n *network) outbound() (list []uint32) {
	n.t.Helper()
	var sas []status.SA
	n.must(n.Get("/sas", &sas))
	for _, s := range sas {
		if s.Direction == "out" {
			list = append(list, s.SPI)
		}
	}
	return list
}

// agrees waits until the router and `ip xfrm state` have the same SAs, in the wanted number and with the
// same packet counts.
func (n *network) agrees(when string, states int) {
	n.t.Helper()
	n.eventually(when, func() error {
		var sas []status.SA
		if err := n.Get("/sas", &sas); err != nil {
			return err
		}
		var ours, linux []string
		for _, s := range sas {
			ours = append(ours, fmt.Sprintf("%s to %s spi %#08x %s %s esn %v: %s, %d packets", s.Src, s.Dst, s.SPI, s.Mode, s.Suite, s.ESN, s.State, s.Packets))
		}
		text := labtest.Run(n.t, n.a.Namespace, "ip", "-s", "xfrm", "state")
		for _, m := range stateText.FindAllStringSubmatch(text, -1) {
			linux = append(linux, fmt.Sprintf("%s to %s spi %s tunnel aes128gcm16 esn true: live, %s packets", m[1], m[2], m[3], m[4]))
		}
		slices.Sort(ours)
		slices.Sort(linux)
		if !slices.Equal(ours, linux) {
			return fmt.Errorf("the router has\n%s\nand Linux\n%s", strings.Join(ours, "\n"), strings.Join(linux, "\n"))
		}
		if len(ours) != states {
			return fmt.Errorf("there are\n%s", strings.Join(ours, "\n"))
		}
		return nil
	})
}

var stateText = regexp.MustCompile(`(?m)^src (\S+) dst (\S+)\n\s+proto esp spi (0x\w+)\(\d+\) reqid \d+\(\S+\) mode tunnel\n(?:\s.*\n)*?.*flag .*esn.*\n(?:\s.*\n)*?.*aead rfc4106\(gcm\(aes\)\) 0x\w{40} \(160 bits\) 128\n(?:\s.*\n)*?\s+lifetime current:\n\s+\d+\(bytes\), (\d+)\(packets\)`)
