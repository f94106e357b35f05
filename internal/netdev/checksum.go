package netdev

// softDrivers are drivers of virtual devices. The sender is a kernel on the same machine, which
// leaves L4 checksums to hardware (CHECKSUM_PARTIAL) that the packets never reach.
var softDrivers = map[string]bool{
	"veth": true, "virtio_net": true, "tun": true, "vif": true, "xen_netfront": true, "vmxnet3": true,
	"hv_netvsc": true, "bridge": true, "ifb": true, "netkit": true, "vxlan": true, "geneve": true,
}

// softKinds are the kinds of devices that switch packets between each other without completing
// checksums (macvlan_queue_xmit, ipvlan_queue_xmit).
var softKinds = map[string]bool{"macvlan": true, "macvtap": true, "ipvlan": true, "ipvtap": true}

// UnfinishedChecksums returns the first layer that can deliver packets with partial L4 checksums;
// it is not ok if all checksums are complete. A lower device in another network namespace counts as one, because
// its driver is unknown.
func UnfinishedChecksums(layers []Device) (d Device, ok bool) {
	for _, d := range layers {
		if softDrivers[d.Driver] || softKinds[d.Kind] || onLower[d.Kind] && d.Foreign {
			return d, true
		}
	}
	return Device{}, false
}
