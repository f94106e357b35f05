package afxdp

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/warproute/warproute/internal/ethtool"
	"github.com/warproute/warproute/umem"
)

// Zero-copy, a NIC writes what it receives into a frame of memory itself. The driver gives it
// the length of the buffer, some in coarse units. A packet that does not fit is cut or lost
// and nothing says so, because xsk_rcv sees a frame of a valid length.

// zeroCopyUnits are the units, in bytes, to which drivers round that length down; others
// have it exact, or refuse the memory. Each is from the driver's source in Linux 6.18, in
// drivers/net/ethernet:
//
//	igb      SRRCTL.BSIZEPKT in KiB (igb_setup_srrctl)
//	igc      SRRCTL.BSIZEPKT in KiB (igc_configure_rx_ring)
//	ixgbe    SRRCTL.BSIZEPKT in KiB on the 82599; later NICs have the exact length in
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

// devices82599 are the PCI device numbers of the 82599 (ixgbe_type.h); other NICs of ixgbe
// round nothing.
var devices82599 = []string{
	"0x10f7", "0x10f8", "0x10f9", "0x10fb", "0x10fc", "0x1507", "0x1514", "0x1517", "0x151c", "0x1529", "0x152a",
	"0x154a", "0x154d", "0x154f", "0x1557", "0x1558",
}

// zeroCopyRoom returns how many bytes of a packet a frame of memory holds zero-copy, by the
// driver and the PCI device number, "" where that is unknown.
func zeroCopyRoom(driver, device string) int {
	unit, coarse := zeroCopyUnits[driver]
	if !coarse || driver == "ixgbe" && device != "" && !slices.Contains(devices82599, device) {
		return umem.MaxFrameLen
	}
	return umem.MaxFrameLen / unit * unit
}

// leastMTU is what a port must hold zero-copy whatever its MTU is now: it may be raised.
const leastMTU = 1500

// CheckZeroCopy returns an error if the driver of an interface would cut packets of an MTU
// in zero-copy mode.
func CheckZeroCopy(name string, mtu int) error {
	driver, device := hardware(name)
	room, need := zeroCopyRoom(driver, device), max(mtu, leastMTU)+14
	if need > room && mtu <= umem.MaxMTU { // above, packets take several frames
		return fmt.Errorf("driver %s rounds the %d bytes of a frame down to %d, and packets of an MTU of %d take %d: it would cut them",
			driver, umem.MaxFrameLen, room, need-14, need)
	}
	return nil
}

// hardware returns an interface's driver and PCI device number; tests have others.
var hardware = func(name string) (driver, device string) {
	driver, _ = ethtool.Driver(name)
	if bus := ethtool.Bus(name); bus != "" && !strings.Contains(bus, "/") {
		text, _ := os.ReadFile("/sys/bus/pci/devices/" + bus + "/device") // fails of what is no PCI device
		device = strings.TrimSpace(string(text))
	}
	return driver, device
}
