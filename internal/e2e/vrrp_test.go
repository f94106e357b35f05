package e2e

import (
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

const (
	failoverLimit = 1500 * time.Millisecond
	lostByReturn  = 10 // packets, of 200 each second and way, and in each family
	echoInterval  = 5 * time.Millisecond
	echoWait      = 300 * time.Millisecond // maximum time of a reply on a busy machine
)

// vrrpFailure is a failure of the active router. Packets pass within a limit.
type vrrpFailure struct {
	what       string
	limit      time.Duration
	fail, heal func()
}

// Two routers with keepalived, as documented, replace each other: whichever process of the active one is killed, and if it
// loses its link, the host's packets pass again within 1.5 s, in both directions, and continue to pass. When the first
// router returns, they pass on.
func TestKeepalivedFailsOver(t *testing.T) {
	if !fullScale() {
		t.Skip("WARPROUTE_SCALE=full runs it (make test-scale)")
	}
	n, a, b := newVRRP(t)
	a.becomesActive("at the start")
	flows := map[string]*echoes{}
	for _, server := range []string{"192.0.2.9", "2001:db8::9"} {
		flows[server] = startEchoes(t, n, server)
	}
	// passes checks that packets pass at most a time after an event, and from then on.
	passes := func(what string, event time.Time, limit time.Duration) (losses int) {
		t.Helper()
		for server, e := range flows {
			gap, lost, late := e.gap(event, event.Add(limit))
			losses += lost
			t.Logf("%s: %s: %v without replies, %d packets lost", what, server, gap.Round(time.Millisecond), lost)
			if gap > limit || late > 0 {
				t.Errorf("%s: %s: %v without replies, want at most %v; %d packets were lost later", what, server, gap, limit, late)
			}
		}
		return losses
	}
	failures := []vrrpFailure{
		{"warproute killed", failoverLimit, func() { kill(t, a.router.Process) }, a.startRouter},
		{"keepalived killed", failoverLimit, a.killKeepalived, a.startKeepalived},
		{"both killed", failoverLimit, func() { a.killKeepalived(); kill(t, a.router.Process) }, func() { a.startRouter(); a.startKeepalived() }},
		{"link of the host down", failoverLimit, func() { require.NoError(t, n["lan"].SetDown("a")) }, func() { require.NoError(t, n["lan"].SetUp("a")) }},
	}
	if fullScale() {
		failures = append(failures,
			vrrpFailure{"link of the server down", failoverLimit, func() { require.NoError(t, n["wan"].SetDown("a")) }, func() { require.NoError(t, n["wan"].SetUp("a")) }},
			vrrpFailure{"warproute hangs", 2500 * time.Millisecond, func() { a.signal(unix.SIGSTOP) }, func() { a.signal(unix.SIGCONT) }})
	}
	for _, f := range failures {
		event := time.Now()
		f.fail()
		b.becomesActive(f.what)
		time.Sleep(time.Until(event.Add(f.limit + time.Second/2)))
		passes(f.what, event, f.limit)

		event = time.Now()
		f.heal()
		eventually(t, 10*time.Second, "the second router is passive", func() bool { return !b.active() })
		a.becomesActive("again")
		time.Sleep(time.Second / 2)
		if lost := passes("returned", event, failoverLimit); lost > lostByReturn {
			t.Errorf("after %s: the first router's return lost %d packets, want at most %d", f.what, lost, lostByReturn)
		}
	}
	neighbors := must(t, n["host"], "ip", "neigh")
	for addr, mac := range virtualMACs {
		if !strings.Contains(neighbors, addr+" dev eth0 lladdr "+mac) {
			t.Errorf("the host has no %s with MAC address %s:\n%s", addr, mac, neighbors)
		}
	}
	for _, e := range flows {
		e.stop()
	}
	a.router.equal()
	b.router.equal()
	for _, node := range []*vrrpNode{a, b} {
		account := node.router.Stop()
		if account.Arrived != account.Linux+account.Lost+account.Received || account.Received != account.Transmitted+account.Dropped || account.Lost != 0 {
			t.Errorf("router %s: %+v\n%s", node.ns.Name(), account, node.router.Out)
		}
	}
}

// echoes is a flow of numbered packets from the host to the server, which returns them.
type echoes struct {
	mu   sync.Mutex
	sent []time.Time
	got  []int // replies
	stop func()
}

func startEchoes(t *testing.T, n lab.Network, server string) *echoes {
	t.Helper()
	e := new(echoes)
	var far *net.UDPConn
	var near net.Conn
	require.NoError(t, n["server"].Do(func() (err error) {
		far, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(server), Port: 7777})
		return err
	}))
	require.NoError(t, n["host"].Do(func() (err error) {
		near, err = net.Dial("udp", net.JoinHostPort(server, "7777"))
		return err
	}))
	var running sync.WaitGroup
	running.Go(func() {
		for b := make([]byte, 64); ; {
			size, from, err := far.ReadFromUDP(b)
			if err != nil {
				return
			}
			_, _ = far.WriteToUDP(b[:size], from)
		}
	})
	ended := make(chan struct{})
	running.Go(func() {
		for b := make([]byte, 64); ; {
			size, err := near.Read(b)
			if err == nil && size == 4 {
				e.mu.Lock()
				if number := int(binary.BigEndian.Uint32(b)); number < len(e.got) {
					e.got[number]++
				}
				e.mu.Unlock()
				continue
			}
			select { // an ICMP error is no end
			case <-ended:
				return
			default:
			}
		}
	})
	running.Go(func() {
		tick := time.NewTicker(echoInterval)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			e.mu.Lock()
			number := len(e.sent)
			e.sent, e.got = append(e.sent, time.Now()), append(e.got, 0)
			e.mu.Unlock()
			_, _ = near.Write(binary.BigEndian.AppendUint32(nil, uint32(number)))
		}
	})
	e.stop = sync.OnceFunc(func() {
		close(ended)
		near.Close()
		far.Close()
		running.Wait()
	})
	t.Cleanup(e.stop)
	return e
}

// gap returns the longest time between packets with replies since an event, the number of lost packets, and how many of them
// were sent after a time.
func (e *echoes) gap(event, after time.Time) (longest time.Duration, lost, late int) {
	time.Sleep(echoWait)
	e.mu.Lock()
	defer e.mu.Unlock()
	last := event
	for i, at := range e.sent {
		switch {
		case at.Before(event) || time.Since(at) < echoWait:
		case e.got[i] > 0:
			longest = max(longest, at.Sub(last))
			last = at
		default:
			lost++
			if at.After(after) {
				late++
			}
		}
	}
	return max(longest, time.Since(last)-echoWait), lost, late
}
