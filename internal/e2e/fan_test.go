package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

// fan is a router with three links to the same far side:
//
//	client ──── lan0 router wan0 ──── far0      10.21.0.1 and .2, fd21::1 and ::2
//	                        wan1 ──── far1 far  10.22.0.1 and .2, fd22::1 and ::2
//	                        wan2 ──── far2      no IPv4,          fd23::1 and ::2
type fan struct {
	t                   *testing.T
	client, router, far *lab.Namespace
	fd                  int // a packet socket of the client
	mac                 []byte
	mu                  sync.Mutex
	came                [3][][]byte // IP frames to the prefixes behind the far side, by link
}

func newFan(t *testing.T) *fan {
	t.Helper()
	f := &fan{t: t}
	top := newTopology(t, lab.VethOptions{})
	f.client, f.router, f.far = top.Client, top.Router, top.Server
	ip(t, f.router, "link del "+lab.WAN)
	args := []string{"--port", lab.LAN}
	for i := range 3 {
		wan, far := fmt.Sprint("wan", i), fmt.Sprint("far", i)
		text := fmt.Sprintf("router %s fd2%d::1/64 -- server %s fd2%d::2/64", wan, i+1, far, i+1)
		if i < 2 {
			text = fmt.Sprintf("router %s fd2%[2]d::1/64 10.2%[2]d.0.1/24 -- server %[3]s fd2%[2]d::2/64 10.2%[2]d.0.2/24", wan, i+1, far)
		}
		require.NoError(t, top.Add(lab.VethOptions{}, text))
		// A link without carrier would lose its IPv6 addresses, and with them the routes.
		sysctl(t, f.router, "net.ipv6.conf."+wan+".keep_addr_on_down", "1")
		args = append(args, "--port", wan)
		f.watch(i, far)
	}
	mac := macOf(t, f.router, lab.LAN)
	f.mac, f.fd = mac, packetSocket(t, f.client, lab.ClientLink)
	startRouter(t, f.router, args...)
	return f
}

// watch collects frames at a link of the far side.
func (f *fan) watch(link int, name string) {
	listen(f.t, f.far, name, func(frame []byte, _ bool) {
		if len(frame) < 14+40 {
			return
		}
		if bytes.HasPrefix(frame[14+16:], []byte{10, 50}) || bytes.HasPrefix(frame[14+24:], []byte{0xfd, 0x50}) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.came[link] = append(f.came[link], bytes.Clone(frame))
		}
	})
}

// send sends frames from the client and returns those that arrive, by link.
func (f *fan) send(frames [][]byte) (came [3][][]byte) {
	f.t.Helper()
	f.mu.Lock()
	f.came = [3][][]byte{}
	f.mu.Unlock()
	for i, frame := range frames {
		copy(frame, f.mac)
		require.NoError(f.t, unix.Send(f.fd, frame, 0))
		if i%20 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		f.mu.Lock()
		came = f.came
		f.mu.Unlock()
		if len(came[0])+len(came[1])+len(came[2]) >= len(frames) || time.Now().After(end) {
			return came
		}
	}
}

// fanFlows is the number of flows: IPv4 with even numbers, IPv6 with odd ones.
const fanFlows = 600

func flowFrame(flow int, payload []byte) []byte {
	host, port := 1+flow/100, uint16(1000+flow)
	if flow%2 == 0 {
		return testutil.UDP4(lab.Client4.Addr().String(), fmt.Sprint("10.50.0.", host), port, loadPort, payload...)
	}
	return testutil.UDP6(lab.Client6.Addr().String(), fmt.Sprint("fd50::", host), port, loadPort, payload...)
}

// links sends two packets of every flow and returns the link that each takes. All
// must arrive, and those of a flow by the same link.
func (f *fan) links(when string) (link [fanFlows]int) {
	f.t.Helper()
	var frames [][]byte
	for n := range 2 * fanFlows {
		frames = append(frames, flowFrame(n%fanFlows, binary.BigEndian.AppendUint32(make([]byte, 16), uint32(n))))
	}
	var packets [fanFlows]int
	for l, came := range f.send(frames) {
		for _, frame := range came {
			flow := int(binary.BigEndian.Uint32(frame[len(frame)-4:])) % fanFlows
			if packets[flow] > 0 && link[flow] != l {
				f.t.Errorf("%s: flow %d comes by links %d and %d", when, flow, link[flow], l)
			}
			link[flow] = l
			packets[flow]++
		}
	}
	for flow, n := range packets {
		if n != 2 {
			f.t.Fatalf("%s: %d packets of flow %d arrived, of 2", when, n, flow)
		}
	}
	return link
}

// shares checks the number of flows by link and family, within five standard deviations.
func (f *fan) shares(when string, link [fanFlows]int, want [3]float64) {
	f.t.Helper()
	var n [2][3]int
	for flow, l := range link {
		n[flow%2][l]++
	}
	for family, n := range n {
		for l, share := range want {
			mean, variance := fanFlows/2*share, fanFlows/2*share*(1-share)
			if d := float64(n[l]) - mean; d*d > 25*variance {
				f.t.Errorf("%s: %d of %d flows of %s by link %d, want about %.0f", when, n[l], fanFlows/2, families[family].name, l, mean)
			}
		}
	}
}

// moved fails the test unless exactly the flows of a link moved; -1 for none.
func (f *fan) moved(when string, before, after [fanFlows]int, from int) {
	f.t.Helper()
	for flow := range before {
		if (before[flow] != after[flow]) != (before[flow] == from) {
			f.t.Errorf("%s: flow %d took link %d and takes %d", when, flow, before[flow], after[flow])
			return
		}
	}
}

func (f *fan) ip(lines ...string) {
	f.t.Helper()
	ip(f.t, f.router, lines...)
	time.Sleep(effect)
}
