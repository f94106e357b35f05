package guest

import (
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/warproute/warproute/internal/lab"
)

// Model is a NIC that QEMU emulates.
type Model string

// Models with the XDP support of their drivers in Linux 7. QEMU emulates igb since 8.0.
const (
	IGB         Model = "igb"          // Intel 82576: native
	Virtio      Model = "virtio"       // virtio-net: native
	VirtioIOMMU Model = "virtio-iommu" // virtio-net that translates addresses (VIRTIO_F_ACCESS_PLATFORM): zero-copy
	VMXNET3     Model = "vmxnet3"      // VMware's: native
	E1000E      Model = "e1000e"       // Intel 82574L: generic
)

// models are the arguments of QEMU's -device.
var models = map[Model]string{
	IGB: "igb", Virtio: "virtio-net-pci", VirtioIOMMU: "virtio-net-pci,iommu_platform=on,disable-legacy=on", VMXNET3: "vmxnet3", E1000E: "e1000e",
}

// Module returns the kernel module of the model's driver.
func (m Model) Module() string {
	switch m {
	case Virtio, VirtioIOMMU:
		return "virtio_net"
	}
	return string(m)
}

// EmulatedNIC is a NIC of a virtual machine. Its other end is a TAP link in a namespace of the host.
type EmulatedNIC struct {
	Model  Model
	Name   string           // of the interface in the guest, after NameNICs
	MAC    net.HardwareAddr // in the guest
	Host   *lab.Namespace
	Tap    string // name of the link in Host
	Queues int    // of virtio, 0: one; others have as many as their hardware
}

// queues returns the number of queue pairs of the TAP link.
func (n *EmulatedNIC) queues() int {
	if n.Model == Virtio || n.Model == VirtioIOMMU {
		return max(1, n.Queues)
	}
	return 1
}

// args returns QEMU's arguments for NIC number i, and the files of its TAP link as descriptors from fd.
func (n *EmulatedNIC) args(i, fd int) (args []string, files []*os.File, err error) {
	device, ok := models[n.Model]
	if !ok {
		return nil, nil, fmt.Errorf("no NIC %q", n.Model)
	}
	queues := n.queues()
	if files, err = n.Host.Tap(n.Tap, queues); err != nil {
		return nil, nil, err
	}
	key, fds := "fd", []string{}
	for q := range queues {
		fds = append(fds, fmt.Sprint(fd+q))
	}
	if queues > 1 {
		key = "fds"
		device += fmt.Sprintf(",mq=on,vectors=%d", 2*queues+2)
	}
	return []string{
		"-netdev", fmt.Sprintf("tap,id=net%d,%s=%s", i, key, strings.Join(fds, ":")),
		"-device", fmt.Sprintf("pcie-root-port,id=slot%d,chassis=%d,slot=%d", i, i+1, i+1),
		"-device", fmt.Sprintf("%s,id=nic%d,netdev=net%[2]d,bus=slot%[2]d,mac=%s,romfile=", device, i, n.MAC),
	}, files, nil
}

// NameNICs names the interfaces of the guest's emulated NICs, as udev does on a host, and returns an
// error if one is missing. Call it after loading a driver.
func (g *Guest) NameNICs(nics ...EmulatedNIC) error {
	var script strings.Builder
	for _, n := range nics {
		fmt.Fprintf(&script, `found=
for d in /sys/class/net/*; do
	[ "$(cat $d/address)" = %[1]s ] && found=${d##*/}
done
[ "$found" = %[2]s ] || ip link set dev "$found" name %[2]s || { echo "no interface with address %[1]s"; exit 1; }
`, n.MAC, n.Name)
	}
	_, err := g.Run("sh", "-c", script.String())
	return err
}

// SetCarrier plugs or unplugs the cable of NIC number i.
func (g *Guest) SetCarrier(i int, up bool) error {
	return g.monitor("set_link", map[string]any{"name": fmt.Sprintf("nic%d", i), "up": up})
}
