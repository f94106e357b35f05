package afxdp

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/umem"
)

// With zero-copy, the NIC writes packets to frames of the UMEM. The driver configures the length of
// the buffer, some in coarse units. A longer packet is truncated or lost without an error, because
// xsk_rcv sees a frame of a valid length.

// zeroCopyUnits are the units, in bytes, to which drivers round the buffer length down; others use the
// exact length or refuse the UMEM. Source: drivers/net/ethernet of Linux 6.18.
//
//	igb      SRRCTL.BSIZEPKT in KiB (igb_setup_srrctl)
//	igc      SRRCTL.BSIZEPKT in KiB (igc_configure_rx_ring)
//	ixgbe    SRRCTL.BSIZEPKT in KiB on the 82599; later NICs use the exact length,
//	         RXDCTL.RLPML (ixgbe_configure_srrctl, ixgbe_configure_rx_ring)
//	stmmac   RBSZ in the width of the bus, 16 bytes at most (stmmac_set_queue_rx_buf_size)
//
// Exact or refused:
//
//	i40e     DBUFF of 128 bytes rounded up, RXMAX exact (i40e_configure_rx_ring)
//	ice      as i40e (ice_setup_rx_ctx)
//	mlx5     refuses an MTU that a chunk does not hold (mlx5e_validate_xsk_param)
//	gve      refuses a frame below the largest MTU (gve_xsk_pool_enable)
//	virtio   the length in the descriptor (virtnet_add_recvbuf_xsk)
var zeroCopyUnits = map[string]int{"igb": 1024, "igc": 1024, "ixgbe": 1024, "stmmac": 16}

// devices82599 are the PCI device IDs of the 82599 (ixgbe_type.h); other NICs of ixgbe do not round.
var devices82599 = []string{
	"0x10f7", "0x10f8", "0x10f9", "0x10fb", "0x10fc", "0x1507", "0x1514", "0x1517", "0x151c", "0x1529", "0x152a",
	"0x154a", "0x154d", "0x154f", "0x1557", "0x1558",
}

// zeroCopyRoom returns the maximum length of a packet in a frame with zero-copy, in bytes, by driver
// and PCI device ID, "" if unknown.
func zeroCopyRoom(driver, device string) int {
	unit, coarse := zeroCopyUnits[driver]
	if !coarse || driver == "ixgbe" && device != "" && !slices.Contains(devices82599, device) {
		return umem.MaxFrameLen
	}
	return umem.MaxFrameLen / unit * unit
}

// leastMTU is checked even if the MTU of the port is lower, because it can be raised.
const leastMTU = 1500

// CheckZeroCopy returns an error if the driver of an interface would truncate packets of an MTU in
// zero-copy mode.
func CheckZeroCopy(name string, mtu int) error {
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
