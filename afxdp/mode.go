package afxdp

import "fmt"

// Mode is the XDP mode of a port.
type Mode uint8

const (
	Auto     Mode = iota // the best mode that works
	ZeroCopy             // the driver runs the program; the NIC reads and writes the UMEM
	Native               // the driver runs the program; the kernel copies each frame
	Generic              // the network stack runs the program on a socket buffer and copies it; any interface
)

var modes = [...]string{Auto: "auto", ZeroCopy: "zero-copy", Native: "native", Generic: "generic"}

func (m Mode) String() string {
	if int(m) < len(modes) {
		return modes[m]
	}
	return "invalid"
}

// ParseMode is the inverse of String.
func ParseMode(s string) (Mode, error) {
	for m, name := range modes {
		if s == name {
			return Mode(m), nil
		}
	}
	return Auto, fmt.Errorf("XDP mode %q: use auto, zero-copy, native or generic", s)
}
