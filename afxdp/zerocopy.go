package afxdp

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/warproute/warproute/internal/drivers"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/umem"
)

// With zero-copy, the NIC writes packets to frames of the UMEM. The driver configures the length of
// the buffer, some in coarse units (drivers.Driver.Unit). A longer packet is truncated or lost without an
// error, because xsk_rcv sees a frame of a valid length.

// devices82599 are the PCI device IDs of the 82599 (ixgbe_type.h); other NICs of ixgbe do not round.
var devices82599 = []string{
	"0x10f7", "0x10f8", "0x10f9", "0x10fb", "0x10fc", "0x1507", "0x1514", "0x1517", "0x151c", "0x1529", "0x152a",
	"0x154a", "0x154d", "0x154f", "0x1557", "0x1558",
}

// zeroCopyRoom returns the maximum length of a packet in a frame with zero-copy, in bytes, by driver
// and PCI device ID, "" if unknown.
func zeroCopyRoom(driver, device string) int {
	d, _ := drivers.Find(driver)
	unit := d.Unit
	if unit == 0 || driver == "ixgbe" && device != "" && !slices.Contains(devices82599, device) {
		return umem.MaxFrameLen
	}
	return umem.MaxFrameLen / unit * unit
}

// leastMTU is checked even if the MTU of the port is lower, because it can be raised.
const leastMTU = 1500

// CheckZeroCopy returns an error if zero-copy mode is not safe: the driver of an interface would truncate
// packets of an MTU, or it adds a number of queues for XDP.
//
// virtio_net removes the added queues when the program is detached, and then does not release the
// zero-copy memory of their sockets (virtnet_xsk_pool_disable returns EINVAL). The next program that
// is attached crashes the kernel in xp_alloc_batch (seen on Linux 7.3).
func CheckZeroCopy(name string, mtu, added int) error {
	if added > 0 {
		return fmt.Errorf("the driver adds %d queues for XDP, and Linux would crash after zero-copy on them (none are added if all channels are used: `ethtool -L %s combined MAXIMUM`)", added, name)
	}
	driver, device := hardware(name)
	room, need := zeroCopyRoom(driver, device), max(mtu, leastMTU)+14
	if need > room && mtu <= umem.MaxMTU { // above, packets are multi-buffer
		return fmt.Errorf("driver %s rounds the buffer length of %d bytes down to %d, and packets with an MTU of %d need %d: it would truncate them",
			driver, umem.MaxFrameLen, room, need-14, need)
	}
	return nil
}

// hardware returns the driver and the PCI device ID of an interface. Tests replace it.
var hardware = func(name string) (driver, device string) {
	d := netdev.DriverOf(name)
	driver = d.Name
	if d.Bus != "" && !strings.Contains(d.Bus, "/") {
		text, _ := os.ReadFile("/sys/bus/pci/devices/" + d.Bus + "/device") // fails unless it is a PCI device
		device = strings.TrimSpace(string(text))
	}
	return driver, device
}
