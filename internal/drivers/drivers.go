// Package drivers is the table of NIC drivers and their limits with XDP, for diagnosis and documents.
//
// Tests compare it with the modules of Linux 6.1, 6.12 and 7 (internal/e2e/nics) and with
// docs/nics.md. A claim has a source; an unknown limit is left out.
package drivers

import "fmt"

// Version is a version of Linux; the zero value means none.
type Version struct{ Major, Minor int }

// Since reports whether a kernel of this version has a feature of version v; false if v is none.
func (k Version) Since(v Version) bool {
	return v != Version{} && (k.Major > v.Major || k.Major == v.Major && k.Minor >= v.Minor)
}

func (k Version) String() string {
	if k == (Version{}) {
		return "no"
	}
	return fmt.Sprintf("%d.%d", k.Major, k.Minor)
}

// Channels is a driver's requirement on channels with native XDP.
type Channels string

const (
	// Half requires that at most half of the maximum number of channels is used.
	Half Channels = "at most half of the maximum"
	// Combined requires channels that receive and transmit.
	Combined Channels = "combined"
	// Spare is recommended: as many unused queue pairs as the host has processors. Without them,
	// native XDP works, and redirected packets share locked TX queues.
	Spare Channels = "all, or spare ones, one per processor"
)

// Driver is a driver of Linux, by the name that `ethtool -i` reports.
type Driver struct {
	Name     string
	Hardware string
	Module   string // of the kernel; "": Name

	Native      Version // first kernel with native XDP that redirects to sockets
	ZeroCopy    Version // first kernel with AF_XDP zero-copy in both directions
	MultiBuffer Version // first kernel in which MTU does not limit programs for multi-buffer frames

	MTU      int // highest MTU with native XDP in bytes; 0: not limited, or unknown
	Channels Channels
	Unit     int  // zero-copy buffers are rounded down to multiples of this many bytes; 0: exact
	Resets   bool // attaching a program resets the link
	// NoRedirect reports native XDP without redirection: sockets would receive nothing.
	NoRedirect bool
	// ForgetsProgram reports that the driver no longer runs its XDP program after the interface was set
	// down and up, or got another MTU or other rings, though Linux shows it as attached.
	ForgetsProgram bool

	Note   string
	Tested string // by us; "": not run on this hardware
	Source string // files of Linux below drivers/net/ethernet, if not absolute
}

// Sources of several claims. The first kernels and the MTUs are from eBPF Docs' page "Program type
// BPF_PROG_TYPE_XDP" (isovalent/ebpf-docs), which names a commit of Linux for each kernel, and derives
// the MTUs from the drivers' source for 4 KiB pages and x86.
const (
	Kernels = "https://docs.ebpf.io/linux/program-type/BPF_PROG_TYPE_XDP/#driver-support"
	MTUs    = "https://docs.ebpf.io/linux/program-type/BPF_PROG_TYPE_XDP/#max-mtu"
)

// Find returns the driver with a name; ok is false if it is not in the table.
func Find(name string) (d Driver, ok bool) {
	for _, d := range All {
		if d.Name == name {
			return d, true
		}
	}
	return Driver{}, false
}

// MaxMTU returns the highest MTU with native XDP on a kernel, for programs that accept multi-buffer
// frames or not; 0 if it is not limited or unknown.
func (d Driver) MaxMTU(k Version, multiBuffer bool) int {
	if multiBuffer && k.Since(d.MultiBuffer) {
		return 0
	}
	return d.MTU
}
