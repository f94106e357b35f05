package afxdp

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Reattach attaches the XDP program again, to a driver that no longer runs it. The sockets stay open. Linux has the frames that
// arrive meanwhile. After an error, the port receives nothing.
func (p *Port) Reattach() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.program == nil {
		return fmt.Errorf("attach the XDP program of port %s again: %w", p.Name, errClosed)
	}
	if p.inherited || p.withheld {
		return fmt.Errorf("attach the XDP program of port %s again: a process hands it over", p.Name)
	}
	if p.program.link == nil && !p.unattached { // it is being removed, or could not be opened again
		return fmt.Errorf("attach the XDP program of port %s again: it was detached", p.Name)
	}
	deadline := time.Now().Add(reopenTimeout)
	if err := p.program.detach(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("attach the XDP program of port %s again: detach it: %w", p.Name, err)
	}
	mode := p.Mode
	if mode == ZeroCopy {
		mode = Native
	}
	if err := p.program.attach(p.Ifindex, mode, deadline); err != nil {
		p.unattached = true
		return attachError(err, p.Name, p.Ifindex)
	}
	p.unattached = false
	return nil
}
