package service

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
)

// The first tunnels stay; the others change with every generation.
const (
	staying, changing = 20, 500
	switched          = 100 // policies that change with every generation
)

// generation returns the configuration of a generation.
func generation(g int) *config.IPsec {
	c := &config.IPsec{}
	policy := func(d config.Direction, src, dst string, action config.Action, sa string) {
		c.Policies = append(c.Policies, config.Policy{Direction: d, Src: netip.MustParsePrefix(src), Dst: netip.MustParsePrefix(dst),
			SrcPorts: config.AnyPort, DstPorts: config.AnyPort, Action: action, SA: sa})
	}
	for i := range switched {
		action := config.ActionBypass
		if g%2 == 1 {
			action = config.ActionDiscard
		}
		policy(config.DirectionOut, "0.0.0.0/0", fmt.Sprintf("172.16.%d.0/24", i), action, "")
	}
	for i := range staying + changing {
		key := tunnelKey(i, g)
		out, in := outbound(fmt.Sprintf("out-%d", i), tunnelSPI(i, g), 0), inbound(fmt.Sprintf("in-%d", i), tunnelSPI(i, g)|1<<24, 0)
		out.Key, in.Key = config.NewKey(append([]byte("out"), key[3:]...)), config.NewKey(key)
		c.SAs = append(c.SAs, out, in)
		far := fmt.Sprintf("10.8.%d.%d/32", i>>8, i&255)
		policy(config.DirectionOut, "10.7.0.0/16", far, config.ActionProtect, out.Name)
		policy(config.DirectionIn, far, "10.7.0.0/16", config.ActionProtect, in.Name)
	}
	return c
}

func tunnelSPI(i, g int) uint32 {
	if i < staying {
		g = 0
	}
	return uint32(0x1000 + i + g<<16)
}

func tunnelKey(i, g int) []byte {
	return binary.BigEndian.AppendUint32(bytes.Repeat([]byte{7}, 16), tunnelSPI(i, g))
}

// Reloads of 1,000 SAs and 100 policies under traffic lose no packet, leave no gap in sequence
// numbers and use none twice. The traffic uses changing and unchanged SAs and is partly plaintext.
func TestReloadUnderLoadLosesNoPackets(t *testing.T) {
	const plaintext = 20
	var sequences [2 * (staying + changing)]map[uint32]uint32 // by tunnel: the last number of each SPI
	sent, arrived, plain := make([]int, staying+changing), make([]int, staying+changing), make([]int, plaintext)
	toPeers := func(f []byte) {
		p := f[packet.EthernetLen:]
		if (*packet.IPv4)(p).Protocol() != 50 {
			plain[p[19]]++
			return
		}
		spi, seq := binary.BigEndian.Uint32(p[20:]), binary.BigEndian.Uint32(p[24:])
		i := int(spi&0xffff) - 0x1000
		if sequences[i] == nil {
			sequences[i] = map[uint32]uint32{}
		}
		if last := sequences[i][spi]; seq != last+1 {
			t.Errorf("SPI %#x: sequence number %d after %d", spi, seq, last)
		}
		sequences[i][spi] = seq
		sent[i]++
	}
	toSite := func(f []byte) {
		p := f[packet.EthernetLen:]
		arrived[int(p[14])<<8|int(p[15])]++
	}
	b := newBench(t, [2]func([]byte){toSite, toPeers})
	var frames [][]byte
	for i := range staying + changing {
		frames = append(frames, testutil.UDP4("10.7.0.1", fmt.Sprintf("10.8.%d.%d", i>>8, i&255), 1, 2))
	}
	for i := range plaintext {
		frames = append(frames, testutil.UDP4("10.7.0.1", fmt.Sprintf("198.51.100.%d", i), 1, 2))
	}
	back := fromPeers(t, 60)
	b.queues[0].Play(frames, -1)
	b.queues[1].Play(back, len(back))
	for _, q := range b.queues {
		q.start = time.Now()
	}
	require.NoError(t, b.router.Start())
	var took time.Duration
	for g := 1; g <= 3; g++ {
		before := b.router.Stats()
		start := time.Now()
		require.NoError(t, b.ipsecGateway.apply(generation(g)))
		b.fib.MarkChanged()
		took = max(took, time.Since(start))
		for { // until new SAs are used
			if s := b.router.Stats(); s.Ports[0].RxPackets > before.Ports[0].RxPackets+1000 && s.Ports[1].RxPackets > before.Ports[1].RxPackets {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	for _, q := range b.queues {
		q.ended.Store(true)
	}
	b.router.Stop()
	stats := b.router.Stats()
	t.Logf("%d packets out and %d in; a reload took %v", stats.Ports[0].RxPackets, stats.Ports[1].RxPackets, took)
	for port := range stats.Ports {
		for reason, n := range stats.Ports[port].Drops {
			if n > 0 {
				t.Errorf("port %d: %d packets dropped: %v", port, n, batch.Reason(reason))
			}
		}
	}
	expect := func(what string, i, got, flows int, received uint64) {
		want := int(received) / flows
		if i < int(received)%flows {
			want++
		}
		if got != want {
			t.Errorf("%s %d: %d packets of %d", what, i, got, want)
		}
	}
	for i := range sent {
		expect("to peer", i, sent[i], len(frames), stats.Ports[0].RxPackets)
		expect("from peer", i, arrived[i], len(sent), stats.Ports[1].RxPackets)
		if n := len(sequences[i]); i < staying && n != 1 || i >= staying && n < 2 {
			t.Errorf("tunnel %d has used %d SPIs", i, n)
		}
	}
	for i := range plain {
		expect("plaintext", i, plain[i], len(frames), stats.Ports[0].RxPackets-uint64(len(sent)))
	}
	if err := b.ipsecGateway.close(); err != nil {
		t.Error(err)
	}
}
