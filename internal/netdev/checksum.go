package netdev

// softDrivers are the drivers whose senders are Linux itself, on this host or under the same
// hypervisor, and may leave L4 checksums to a device that the packets never meet.
var softDrivers = map[string]bool{
	"veth": true, "virtio_net": true, "tun": true, "vif": true, "xen_netfront": true, "vmxnet3": true,
	"hv_netvsc": true, "bridge": true, "ifb": true, "netkit": true, "vxlan": true, "geneve": true,
}

// softKinds are the kinds of devices that pass packets between devices on one lower device
// without completing checksums (macvlan_queue_xmit, ipvlan_queue_xmit).
var softKinds = map[string]bool{"macvlan": true, "macvtap": true, "ipvlan": true, "ipvtap": true}

// UnfinishedChecksums returns the device, of an interface and those below it, that may pass
// on packets whose L4 checksum their sender left to hardware; ok is false if there is none.
// A lower device in another network namespace counts as one, because nobody can tell.
func UnfinishedChecksums(layers []Device) (d Device, ok bool) {
	for _, d := range layers {
		if softDrivers[d.Driver] || softKinds[d.Kind] || onLower[d.Kind] && d.Foreign {
			return d, true
		}
	}
	return Device{}, false
}
