package nics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab/guest"
)

// all are the emulated models.
var all = []guest.Model{guest.IGB, guest.Virtio, guest.VirtioIOMMU, guest.VMXNET3, guest.E1000E}

// modes are the XDP modes of the models with an MTU of 1,500, by kernel.
var modes = map[string]map[guest.Model]string{
	"6.1":  {guest.IGB: "native", guest.Virtio: "native", guest.VirtioIOMMU: "native", guest.VMXNET3: "generic", guest.E1000E: "generic"},
	"6.12": {guest.IGB: "native", guest.Virtio: "native", guest.VirtioIOMMU: "native", guest.VMXNET3: "native", guest.E1000E: "generic"},
	"7":    {guest.IGB: "native", guest.Virtio: "native", guest.VirtioIOMMU: "zero-copy", guest.VMXNET3: "native", guest.E1000E: "generic"},
}

// Every model forwards in the mode that doctor predicts, and every frame is counted.
func TestForwarding(t *testing.T) {
	for _, kernel := range kernels() {
		t.Run("Linux "+kernel, func(t *testing.T) {
			m := boot(t, kernel, all...)
			for _, p := range m.pairs {
				t.Run(string(p.model), func(t *testing.T) {
					r := p.startPredicted(t)
					if r == nil {
						t.Fatal("the router does not start")
					}
					for _, port := range r.show() {
						if want := modes[kernel][p.model]; port.Mode != want || port.MTU != 1500 {
							t.Errorf("%s has mode %s (%s) and an MTU of %d, want %s", port.Name, port.Mode, port.ModeReason, port.MTU, want)
						}
					}
					p.answers(t, 15*time.Second)
					r.exchange(t, 400, 64, 65, 200, 1000, 1499, 1500)
					p.distributes(t, r)
					rate := 0.0
					if full() {
						rate = p.transferRate(t)
					}
					r.survivesChanges(t)
					r.attachesForgottenProgram(t)
					r.stop()
					if full() {
						p.linuxForwards(t, func() {
							p.answers(t, 15*time.Second)
							t.Logf("Linux %s, %s, %s: TCP %.0f Mbit/s, Linux alone %.0f Mbit/s", kernel, p.model, modes[kernel][p.model], rate, p.transferRate(t))
						})
					}
					for _, mtu := range p.mtus() {
						p.forwards(t, mtu)
					}
					if kernel == newest {
						p.follows(t)
					}
				})
			}
		})
	}
}

// mtus returns the further MTUs to test: the smallest, and those around the limits of a frame and of
// drivers.
func (p *pair) mtus() []int {
	switch {
	case full():
		return []int{1280, 1776, 1777, 3046, 3494, 3506, 9000}
	case p.model == guest.Virtio:
		return []int{9000}
	}
	return nil
}

// forwards checks that the router starts with an MTU if doctor says so, in the predicted mode, and forwards
// packets of any size up to it.
func (p *pair) forwards(t *testing.T, mtu int) {
	t.Helper()
	defer p.setMTU(t, 1500)
	if !p.setMTU(t, mtu) {
		t.Logf("%s, Linux %s: the driver refuses an MTU of %d", p.model, p.kernel, mtu)
		return
	}
	r := p.startPredicted(t)
	if r == nil {
		t.Logf("%s, Linux %s, MTU %d: refused", p.model, p.kernel, mtu)
		return
	}
	t.Logf("%s, Linux %s, MTU %d: %s", p.model, p.kernel, mtu, r.show()[0].Mode)
	p.answers(t, 15*time.Second)
	sizes := []int{64, mtu / 2, mtu - 1, mtu}
	if p.hasEarlyBuffers(r, mtu) {
		r.usesUpEarlyBuffers(t, sizes...)
	}
	if lost := r.loses(t, 100, sizes...); lost > 0 {
		r.stop()
		if linux := p.linuxLoses(t, 100, sizes...); linux == 0 {
			t.Errorf("%s, Linux %s, MTU %d: the router loses %d of 200 frames, Linux none", p.model, p.kernel, mtu, lost)
		} else {
			t.Logf("%s, Linux %s, MTU %d: the router loses %d of 200 frames, and Linux %d: the emulation does not support it", p.model, p.kernel, mtu, lost, linux)
		}
		return
	}
	r.stop()
}

// Buffers that virtio_net gave to the NIC before the XDP program was attached have no room for XDP. The driver copies shorter
// packets out of them and drops others.
const (
	longestCopied = 3494        // bytes without Ethernet header
	earlyBuffers  = 256 * 4 * 2 // of the rings, queues and ports
)

func (p *pair) hasEarlyBuffers(r *router, mtu int) bool {
	return (p.model == guest.Virtio || p.model == guest.VirtioIOMMU) && r.show()[0].Mode == "native" && mtu > longestCopied
}

// usesUpEarlyBuffers sends long packets until no more are lost. The driver must have counted each lost one. Short packets are
// not lost.
func (r *router) usesUpEarlyBuffers(t *testing.T, sizes ...int) {
	t.Helper()
	var short, long []int
	for _, size := range sizes {
		if size <= longestCopied {
			short = append(short, size)
		} else {
			long = append(long, size)
		}
	}
	if lost := r.loses(t, 100, short...); lost > 0 {
		t.Errorf("%s, Linux %s: %d of 200 frames of %v bytes are lost", r.model, r.kernel, lost, short)
	}
	const enough = 5 // rounds without a loss
	total := 0
	for none := 0; none < enough; none++ {
		before := r.show()
		lost := r.loses(t, 100, long...)
		counted := 0
		for side, after := range r.show() {
			counted += int(after.Link.RxDropped - before[side].Link.RxDropped)
			if after.XDP.NoSocket != before[side].XDP.NoSocket || after.XDP.Refused != before[side].XDP.Refused || after.Rings.RxDropped+after.Rings.RxRingFull != before[side].Rings.RxDropped+before[side].Rings.RxRingFull {
				t.Errorf("%s, Linux %s: frames are lost behind the driver: %+v, before %+v", r.model, r.kernel, after, before[side])
			}
		}
		if total += lost; counted < lost || total > earlyBuffers {
			t.Fatalf("%s, Linux %s: %d of 200 frames of %v bytes are lost, %d in all, and the driver counted %d", r.model, r.kernel, lost, long, total, counted)
		}
		if lost > 0 {
			none = -1
		}
	}
	t.Logf("%s, Linux %s: %d frames of %v bytes were lost in buffers from before the program", r.model, r.kernel, total, long)
}

// linuxLoses returns the number of lost frames if Linux forwards them instead of the router.
func (p *pair) linuxLoses(t *testing.T, n int, sizes ...int) (lost int) {
	t.Helper()
	p.linuxForwards(t, func() {
		p.answers(t, 15*time.Second)
		lost = p.loses(t, n, sizes...)
	})
	return lost
}

// linuxForwards lets Linux forward while f runs.
func (p *pair) linuxForwards(t *testing.T, f func()) {
	t.Helper()
	set := func(value int) {
		p.sh(t, fmt.Sprintf("sysctl -q net.ipv4.ip_forward=%d net.ipv6.conf.all.forwarding=%[1]d", value))
		p.configure(t)
	}
	set(1)
	f()
	set(0)
}

// distributes checks that a NIC with several queues uses them.
func (p *pair) distributes(t *testing.T, r *router) {
	t.Helper()
	if r.show()[0].Queues == 1 {
		return
	}
	used := 0
	for _, line := range strings.Split(p.sh(t, "ethtool -S "+p.port(0)), "\n") {
		var packets uint64
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fmt.Sscan(value, &packets)
		counts := false
		switch p.model {
		case guest.IGB:
			counts = strings.HasPrefix(name, "rx_queue_") && strings.HasSuffix(name, "_packets")
		case guest.Virtio, guest.VirtioIOMMU:
			counts = strings.HasPrefix(name, "rx") && strings.HasSuffix(name, "_packets")
		default:
			return // vmxnet3: QEMU emulates one receive queue
		}
		if counts && packets > 50 {
			used++
		}
	}
	if used < 2 {
		t.Errorf("%s: %d receive queues have packets\n%s", p.model, used, p.sh(t, "ethtool -S "+p.port(0)))
	}
}
