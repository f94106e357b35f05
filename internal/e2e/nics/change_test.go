package nics

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/require"
)

// change is a change of a port while the router runs. After it, packets pass again, and all are counted.
type change struct {
	name   string
	script string // for the guest, with PORT; a driver may refuse it
	apply  func(t *testing.T, p *pair)
}

// changes are made to the first port, in this order.
var changes = []change{
	{name: "loss of carrier", apply: func(t *testing.T, p *pair) {
		nic := 2 * (p.number - 1)
		require.NoError(t, p.SetCarrier(nic, false))
		time.Sleep(300 * time.Millisecond)
		require.NoError(t, p.SetCarrier(nic, true))
	}},
	{name: "link down and up", apply: func(t *testing.T, p *pair) {
		p.sh(t, fmt.Sprintf("ip link set %s down; sleep 0.2", p.port(0)))
		p.configure(t) // Linux deletes IPv6 addresses
	}},
	{name: "ring sizes", script: "ethtool -G PORT rx 512 tx 512"},
	{name: "offloads off", script: "ethtool -K PORT gro off tso off rx off tx off sg off"},
	{name: "offloads on", script: "ethtool -K PORT gro on rx on tx on sg on tso on"},
	{name: "VLAN offload off", script: "ethtool -K PORT rxvlan off"},
	{name: "fewer channels", script: "ethtool -L PORT combined 1"},
	{name: "more channels", script: "ethtool -L PORT combined 2"},
	{name: "interrupt moderation", script: "ethtool -C PORT rx-usecs 100"},
	{name: "lower MTU", script: "ip link set PORT mtu 1400"},
	{name: "MTU", script: "ip link set PORT mtu 1500"},
	{name: "driver reload", apply: func(t *testing.T, p *pair) { p.reload(t) }},
}

// reload unloads and loads the driver. Its other pairs come back as well.
func (p *pair) reload(t *testing.T) {
	t.Helper()
	p.sh(t, "modprobe -r "+p.model.Module())
	p.load(t)
	for _, other := range p.pairs {
		if other != p && other.model.Module() == p.model.Module() {
			other.load(t)
		}
	}
}

// quickChanges are the changes that a quick test makes, by model.
var quickChanges = map[guest.Model][]string{
	guest.IGB:         {"ring sizes", "driver reload"},
	guest.Virtio:      {"loss of carrier"},
	guest.VirtioIOMMU: {"driver reload"},
}

// faulty are changes after which Linux fails, by model: docs/nics.md describes the faults.
var faulty = map[guest.Model][]string{
	// Linux does not remove the queues that virtio_net has added for XDP from sysfs, and waits for them forever.
	guest.Virtio: {"driver reload"},
}

// survivesChanges makes changes while the router runs.
func (r *router) survivesChanges(t *testing.T) {
	t.Helper()
	mode := r.show()[0].Mode
	for _, c := range changes {
		if !full() && !slices.Contains(quickChanges[r.model], c.name) || slices.Contains(faulty[r.model], c.name) {
			continue
		}
		said := ""
		if c.apply != nil {
			c.apply(t, r.pair)
		} else if out, err := r.Run("sh", "-c", strings.ReplaceAll(c.script, "PORT", r.port(0))); err != nil {
			said = "refused: " + strings.TrimSpace(out)
		}
		start := time.Now()
		r.answers(t, 30*time.Second)
		took := time.Since(start)
		r.exchange(t, 50, 64, 1400)
		ports := r.show()
		if ports[0].Mode != mode {
			t.Errorf("%s, Linux %s: %s: mode %s became %s", r.model, r.kernel, c.name, mode, ports[0].Mode)
		}
		if t.Failed() {
			t.Fatalf("%s, Linux %s: after %s: %+v", r.model, r.kernel, c.name, ports)
		}
		t.Logf("%s, Linux %s: %s: forwards after %v %s", r.model, r.kernel, c.name, took.Round(10*time.Millisecond), said)
	}
}

// attachesForgottenProgram checks that a driver that runs no program after a change of the other port gets it again.
func (r *router) attachesForgottenProgram(t *testing.T) {
	t.Helper()
	if r.model != guest.VMXNET3 || r.show()[0].Mode == "generic" {
		return
	}
	for i, change := range []string{"down; sleep 0.2; ip link set %[1]s up", "mtu 1400; ip link set %[1]s mtu 1500"} {
		r.sh(t, fmt.Sprintf("ip link set %[1]s "+change, r.port(1)))
		r.configure(t)
		r.answers(t, 30*time.Second)
		r.exchange(t, 50, 64, 1400)
		if log := r.log(); strings.Count(log, "driver did not run the XDP program any longer, attached again") <= i {
			t.Errorf("%s: the router does not report it:\n%s", r.model, log)
		}
	}
}
