package nics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab/document"
	"github.com/warproute/warproute/internal/lab/guest"
)

// howtos are the how-tos that a model's driver can follow.
var howtos = map[guest.Model]string{guest.IGB: "nic-tuning.md", guest.Virtio: "cloud-vm.md"}

// reader is a user of the guest who follows a how-to for the ports eth1 and eth2.
type reader struct {
	*pair
	t *testing.T
}

// follows follows the how-to of the model, after which the router of the how-to forwards.
func (p *pair) follows(t *testing.T) {
	name, ok := howtos[p.model]
	if !ok {
		return
	}
	before := p.nics
	rename := func(to [2]string) {
		for side := range 2 {
			p.sh(t, fmt.Sprintf("ip link set %[1]s down; ip link set %[1]s name %[2]s", p.port(side), to[side]))
			p.nics[side].Name = to[side]
		}
		p.configure(t)
	}
	rename([2]string{"eth1", "eth2"})
	p.sh(t, fmt.Sprintf(`ln -sf %s /usr/local/bin/warproute; printf '#!/bin/sh\nexec "$@"\n' >/usr/local/bin/sudo; chmod +x /usr/local/bin/sudo`, p.program))
	h := map[string]document.Host{"": &reader{p, t}}
	document.Follow(t, "../../../docs/howto/"+name, "", "Check", h)
	p.answers(t, 15*time.Second)
	p.sh(t, "pkill -TERM -x warproute; while pidof warproute; do sleep 0.1; done")
	document.Follow(t, "../../../docs/howto/"+name, "Undo", "", h)
	rename([2]string{before[0].Name, before[1].Name})
}

// Run implements document.Host.
func (r *reader) Run(script string) (string, error) { return r.pair.Run("sh", "-ec", script) }

// Write implements document.Host.
func (r *reader) Write(path, text string) error {
	_, err := r.Feed(text, "sh", "-c", fmt.Sprintf("mkdir -p $(dirname %[1]s); cat >%[1]s", path))
	return err
}

// Start implements document.Host.
func (r *reader) Start(command string) error {
	_, err := r.pair.Run("sh", "-c", "("+strings.TrimSpace(command)+") >/run/howto.log 2>&1 &")
	r.t.Cleanup(func() {
		if r.t.Failed() {
			out, _ := r.pair.Run("cat", "/run/howto.log")
			r.t.Logf("%s wrote:\n%s", command, out)
		}
	})
	return err
}
