package doctor

import (
	"errors"
	"strings"
	"testing"

	"github.com/warproute/warproute/afxdp"
)

// Predictions without a trial derive from the kernel's report, or before Linux 6.3 from the table of
// drivers. internal/e2e/nics compares them with a running router.
func TestPredictions(t *testing.T) {
	const translates = "sys/class/net/lan0/device/features"
	bits := func(platform byte) string { return strings.Repeat("1", 33) + string(platform) + "00\n" }
	for _, c := range []struct {
		name   string
		change func(h *Host, l *Link)
		mode   string // "" for unknown
		reason string
	}{
		{"zero-copy", func(*Host, *Link) {}, "zero-copy", ""},
		{"no zero-copy in the driver", func(_ *Host, l *Link) { l.Features.ZeroCopy = false }, "native", "no zero-copy in Linux"},
		{"no native XDP in the driver", func(_ *Host, l *Link) { l.Features.Native = false }, "generic", "no native XDP in Linux"},
		{"zero-copy that is not safe", func(_ *Host, l *Link) { l.NoZeroCopy = errors.New("would truncate") }, "native", "would truncate"},
		{"by the table", func(h *Host, l *Link) { l.Features, h.Release = Features{}, "6.1.0" }, "zero-copy", ""},
		{"by the table, before zero-copy", func(h *Host, l *Link) { l.Features, l.Driver, h.Release = Features{}, "igb", "6.1.0" }, "native", "no zero-copy in Linux 6.1.0"},
		{"by the table, before native XDP", func(h *Host, l *Link) { l.Features, l.Driver, h.Release = Features{}, "vmxnet3", "6.1.0" }, "generic", "no native XDP in Linux 6.1.0"},
		{"unknown", func(_ *Host, l *Link) { l.Features, l.Driver = Features{}, "homemade" }, "", ""},
		{"MTU above the driver's", func(h *Host, l *Link) { l.Driver, l.MTU, h.Jumbo = "igb", 9000, true }, "generic", "up to an MTU of 3046"},
		{"multi-buffer frames", func(h *Host, l *Link) { l.Driver, l.MTU, h.Jumbo = "i40e", 9000, true }, "native", "multi-buffer"},
		{"multi-buffer zero-copy", func(h *Host, l *Link) { l.MTU, h.Jumbo, l.Features.ZeroCopySegments = 9000, true, 8 }, "zero-copy", ""},
		{"all channels of ENA", func(_ *Host, l *Link) { l.Driver, l.Queues, l.MaxQueues = "ena", 8, 8 }, "generic", "`ethtool -L lan0 combined 4`"},
		{"half of the channels of ENA", func(_ *Host, l *Link) { l.Driver, l.Queues, l.MaxQueues, l.Features.ZeroCopy = "ena", 4, 8, false }, "native", "no zero-copy"},
		{"all channels of gVNIC", func(_ *Host, l *Link) { l.Driver, l.Queues, l.MaxQueues = "gve", 5, 8 }, "generic", "needs half"},
		{"virtio without address translation", func(h *Host, l *Link) { l.Driver, h.Root = "virtio_net", root(translates, bits('0')) }, "native", "VIRTIO_F_ACCESS_PLATFORM"},
		{"virtio with address translation", func(h *Host, l *Link) { l.Driver, h.Root = "virtio_net", root(translates, bits('1')) }, "zero-copy", ""},
	} {
		h, l := healthy(), healthyLink()
		c.change(h, l)
		h.predict([]*Link{l})
		p := l.Predicted
		if p == nil != (c.mode == "") || p != nil && (p.Mode != c.mode || !strings.Contains(p.Reason, c.reason) || p.Tried) {
			t.Errorf("%s: %+v, want %s because of %q", c.name, p, c.mode, c.reason)
		}
	}
}

// Ports share memory: a port without zero-copy prevents that of the others.
func TestPredictionsOfSeveralPorts(t *testing.T) {
	h, a, b := healthy(), healthyLink(), healthyLink()
	b.Name, b.Features.ZeroCopy = "wan0", false
	h.predict([]*Link{a, b})
	if a.Predicted.Mode != "native" || !strings.Contains(a.Predicted.Reason, "port wan0 has no zero-copy") || b.Predicted.Mode != "native" {
		t.Errorf("%+v, %+v", a.Predicted, b.Predicted)
	}
	a.Trial, b.Trial = &Trial{Mode: afxdp.ZeroCopy, Queues: 4}, &Trial{Mode: afxdp.ZeroCopy, Queues: 2}
	h.predict([]*Link{a, b})
	if *a.Predicted != (Prediction{Mode: "zero-copy", Queues: 4, Tried: true}) || *b.Predicted != (Prediction{Mode: "zero-copy", Queues: 2, Tried: true}) {
		t.Errorf("after a trial: %+v, %+v", a.Predicted, b.Predicted)
	}
	b.Trial = &Trial{Err: errors.New("no memory")}
	for _, links := range [][]*Link{{a, b}, {b, a}} {
		h.predict(links)
		if a.Predicted.Tried || b.Predicted.Tried {
			t.Errorf("a trial of one port counts for both: %+v, %+v", a.Predicted, b.Predicted)
		}
	}
}

// Examine tries ports together.
func TestPortsAreTriedTogether(t *testing.T) {
	h := healthy()
	h.Link = func(name string) (*Link, error) {
		l := healthyLink()
		l.Name = name
		return l, nil
	}
	h.TryAll = true
	calls := 0
	h.Try = func(links []*Link, workers int) {
		calls++
		if len(links) != 2 || workers != 2 {
			t.Errorf("%d ports, %d workers", len(links), workers)
		}
		for _, l := range links {
			l.Trial = &Trial{Mode: afxdp.Native, Queues: 2, Reason: "why"}
		}
	}
	h.Workers = 0
	found := Examine(h, []string{"lan0", "wan0"})
	modes := 0
	for _, f := range found {
		if f.Check == "XDP mode" {
			modes++
			if p := f.Predicted; p == nil || !p.Tried || p.Mode != "native" {
				t.Errorf("%+v", f)
			}
		}
	}
	if calls != 1 || modes != 2 {
		t.Errorf("%d trials, %d modes", calls, modes)
	}
}
