package doctor

import (
	"fmt"
	"strings"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/internal/drivers"
	"github.com/warproute/warproute/umem"
)

// Prediction is the expected state of a port of a router with `mode: auto` on all checked ports.
type Prediction struct {
	Mode   string `json:"mode"`             // zero-copy, native or generic
	Queues int    `json:"queues"`           // receive queues, each with a socket
	Tried  bool   `json:"tried"`            // by opening the ports; false: derived from the driver
	Reason string `json:"reason,omitempty"` // why no faster mode
}

// predict sets the predictions of ports: the result of a trial of all ports, or else what their drivers
// support. Ports share memory, so they use zero-copy together or not at all.
func (h *Host) predict(links []*Link) {
	together := true
	for _, l := range links {
		together = together && l.Trial != nil && l.Trial.Err == nil
	}
	if together {
		for _, l := range links {
			l.Predicted = &Prediction{Mode: l.Trial.Mode.String(), Queues: l.Trial.Queues, Tried: true, Reason: l.Trial.Reason}
		}
		return
	}
	shared := "" // why no port has zero-copy
	for _, l := range links {
		l.Predicted = h.expect(l)
		if p := l.Predicted; shared == "" && (p == nil || p.Mode != afxdp.ZeroCopy.String()) {
			shared = fmt.Sprintf("port %s has no zero-copy, and all ports share memory", l.Name)
		}
	}
	for _, l := range links {
		if p := l.Predicted; p != nil && p.Mode == afxdp.ZeroCopy.String() && shared != "" {
			p.Mode, p.Reason = afxdp.Native.String(), shared
		}
	}
}

// expect derives the mode of a port from its driver, nil if the driver is unknown.
func (h *Host) expect(l *Link) *Prediction {
	major, minor, known := h.version()
	kernel := drivers.Version{Major: major, Minor: minor}
	d, listed := drivers.Find(l.Driver)
	if !l.Features.Known && (!listed || !known) {
		return nil
	}
	if reason := h.noNative(l, d, kernel); reason != "" {
		return &Prediction{Mode: afxdp.Generic.String(), Queues: l.Queues, Reason: reason}
	}
	if reason := h.noZeroCopy(l, d, kernel); reason != "" {
		return &Prediction{Mode: afxdp.Native.String(), Queues: l.XDPQueues, Reason: reason}
	}
	return &Prediction{Mode: afxdp.ZeroCopy.String(), Queues: l.XDPQueues}
}

// noNative returns why a port cannot use native XDP, "" if it can.
func (h *Host) noNative(l *Link, d drivers.Driver, kernel drivers.Version) string {
	limit := d.MaxMTU(kernel, h.Jumbo)
	switch {
	case l.Features.Known && !l.Features.Native, !l.Features.Known && !kernel.Since(d.Native):
		return fmt.Sprintf("driver %s has no native XDP in Linux %s", l.Driver, h.Release)
	case limit > 0 && l.MTU > limit && l.Driver != "veth": // whose limit is that of the peer
		return fmt.Sprintf("driver %s has native XDP up to an MTU of %d, and it is %d", l.Driver, limit, l.MTU)
	case d.Channels == drivers.Half && 2*l.Queues > l.MaxQueues:
		return fmt.Sprintf("driver %s needs half of the %d channels for XDP, and %d are used: `ethtool -L %s combined %d`", l.Driver, l.MaxQueues, l.Queues, l.Name, max(1, l.MaxQueues/2))
	}
	return ""
}

// noZeroCopy returns why a port with native XDP cannot use zero-copy, "" if it can.
func (h *Host) noZeroCopy(l *Link, d drivers.Driver, kernel drivers.Version) string {
	switch {
	case l.Features.Known && !l.Features.ZeroCopy, !l.Features.Known && !kernel.Since(d.ZeroCopy):
		return fmt.Sprintf("driver %s has no zero-copy in Linux %s", l.Driver, h.Release)
	case l.NoZeroCopy != nil:
		return l.NoZeroCopy.Error()
	case h.Jumbo && l.Features.ZeroCopySegments < 2:
		return fmt.Sprintf("driver %s has no zero-copy with multi-buffer frames, which an MTU above %d needs", l.Driver, umem.MaxMTU)
	case l.Driver == "virtio_net" && !h.translates(l):
		return "the hypervisor does not offer VIRTIO_F_ACCESS_PLATFORM (QEMU: iommu_platform=on)"
	}
	return ""
}

// accessPlatform is the bit VIRTIO_F_ACCESS_PLATFORM of linux/virtio_config.h.
const accessPlatform = 33

// translates reports whether a virtio device accesses memory by the DMA API, which zero-copy needs.
func (h *Host) translates(l *Link) bool {
	text, _ := h.read("sys/class/net/" + l.Name + "/device/features") // one digit per bit, from bit 0
	bits := strings.TrimSpace(text)
	return len(bits) > accessPlatform && bits[accessPlatform] == '1'
}
