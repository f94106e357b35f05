package esp_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// openedWindows are window sizes of the SAs of TestConfirmOpenedAgreesWithConfirm.
var openedWindows = []int{0, 1, 31, 32, 33, 64, 1024, 4096}

// openedChunk is a chunk, and its frames and results by the reference.
type openedChunk struct {
	in      []batch.Frame
	out     []batch.Result
	wantIn  []batch.Frame
	wantOut []batch.Result
}

// TestConfirmOpenedAgreesWithConfirm: packets of many SAs, in one or several chunks, get the results of one after the other. Numbers
// are new, repeated, and older than the window; runs of one SA are longer than a block.
func TestConfirmOpenedAgreesWithConfirm(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2100, 1))
	w, g := newWorld(t), &gateway.Gateway{}
	const perWindow = 12
	n := perWindow * len(openedWindows)
	var one, other []*ipsec.SA // those of the stage, and of the reference
	for i := range n {
		c := config(ipsec.In, false)
		c.Name, c.SPI, c.ReplayWindow = fmt.Sprint(i), uint32(0x1000+i), openedWindows[i%len(openedWindows)]
		c.Tunnel, c.Clock = g.Tunnel(c.Name), &g.Clock
		if i%10 == 9 {
			c.Suite, c.AuthKey, c.Key = "aes128-sha256", make([]byte, 32), make([]byte, 16)
		}
		if i == 17 {
			c.Lifetime.Hard.Age = time.Nanosecond
		}
		for _, all := range []*[]*ipsec.SA{&one, &other} {
			sa, err := ipsec.NewSA(c, 2)
			require.NoError(t, err)
			*all = append(*all, sa)
		}
		require.NoError(t, g.Add(one[i]))
	}
	w.Engine.Secure(g, 1)
	stage := w.Engine.ESP()
	const size, most, rounds = 1024, 6, 300
	chunks := make([]openedChunk, most)
	for i := range chunks {
		chunks[i] = openedChunk{make([]batch.Frame, size), make([]batch.Result, size), make([]batch.Frame, size), make([]batch.Result, size)}
	}
	top := make([]int, n)
	received, skipped := 0, 0
	drops := map[batch.Reason]int{}
	forwarded, together := 0, 0 // chunks since the last that was checked
	for round := range rounds {
		r := &chunks[together]
		if size := 1 + rnd.IntN(size); round%2 == 0 { // with chunks of the full size, BeginOpened confirms
			r = &openedChunk{r.in[:size], r.out[:size], r.wantIn[:size], r.wantOut[:size]}
		}
		chunks[together] = *r
		in, wantIn, wantOut := r.in, r.wantIn, r.wantOut
		stage.BeginOpened(in, r.out, nil, gateway.MaxKeys)
		k, aead := 0, 0
		used := 1 + rnd.IntN(n)
		for i := range in {
			if round%3 == 0 || rnd.IntN(3) > 0 { // else a run
				k = rnd.IntN(used)
			}
			seq := top[k] + 1 + rnd.IntN(2)*rnd.IntN(40)
			switch rnd.IntN(8) {
			case 0: // received, or skipped
				seq = max(0, top[k]-rnd.IntN(openedWindows[k%len(openedWindows)]+70))
			case 1:
				seq += rnd.IntN(5000)
			}
			top[k] = max(top[k], seq)
			f := batch.Frame{Addr: uint32(i)*4096 + 130, Len: uint16(200 + rnd.IntN(1000)), Origin: wan}
			inner := uint32(20 + 8 + one[k].IVLen())
			r := batch.ForwardTo(lan, f.Addr+inner, f.Len-uint16(inner)-uint16(rnd.IntN(40)))
			in[i], wantIn[i], wantOut[i] = f, f, r
			if rnd.IntN(50) == 0 { // not admitted
				if added(stage, i, batch.DropFor(batch.NoRoute), esp.SAReport(seq)<<32|esp.SAReport(one[k].KeyIndex())) {
					t.Fatal("a dropped packet is to be confirmed")
				}
				chunks[together].out[i], wantOut[i] = batch.DropFor(batch.NoRoute), batch.DropFor(batch.NoRoute)
				skipped++
				continue
			}
			if !added(stage, i, r, esp.SAReport(seq)<<32|esp.SAReport(one[k].KeyIndex())) {
				t.Fatalf("SA %d: the packet needs a job", k)
			}
			if one[k].Combined() {
				aead++
			}
			received++
			if rnd.IntN(200) == 0 {
				stage.ConfirmOpened()
			}

			sa, f2, r2 := other[k], &wantIn[i], &wantOut[i]
			f2.Origin = f2.Origin.With(batch.PolicyDone)
			switch {
			case sa.Usable(ipsec.In) != ipsec.OK:
				*r2 = batch.DropFor(batch.XfrmInStateExpired)
			case sa.Confirm(1, uint64(seq), true) != ipsec.OK:
				*r2 = batch.DropFor(batch.XfrmInStateSeqError)
			default:
				f2.Addr, f2.Len, f2.Origin = r.Addr(), r.Len(), f2.Origin.With(batch.InboundChecked)
				sa.Counts(1).Add(1, uint64(r.Len())-packet.EthernetLen)
				forwarded++
			}
			if r2.Verdict != r.Verdict {
				drops[r2.Verdict.Reason()]++
			}
		}
		if a, h := stage.Protected(); a != aead || h != received-aead || stage.Received() != received {
			t.Fatalf("counted %d packets of AEAD and %d with HMAC, %d received, want %d, %d, %d", a, h, stage.Received(), aead, received-aead, received)
		}
		if received = 0; round == 150 { // the next chunk clears what the stage knows of SAs
			spare := config(ipsec.In, false)
			spare.Name, spare.SPI, spare.Tunnel = "spare", 0x9000, g.Tunnel("spare")
			sa, err := ipsec.NewSA(spare, 2)
			require.NoError(t, err)
			require.NoError(t, g.Add(sa))
		}
		if together++; together < most && rnd.IntN(4) > 0 && round < rounds-1 {
			continue
		}
		stage.ConfirmOpened()
		for k, r := range chunks[:together] {
			for i := range r.in {
				if r.in[i] != r.wantIn[i] || r.out[i] != r.wantOut[i] {
					t.Fatalf("round %d, chunk %d of %d, packet %d: %+v, %v, want %+v, %v", round, k, together, i, r.in[i], r.out[i], r.wantIn[i], r.wantOut[i])
				}
			}
			chunks[k] = openedChunk{r.in[:size], r.out[:size], r.wantIn[:size], r.wantOut[:size]}
		}
		together = 0
	}
	for k := range one {
		if got, want := one[k].Stats(), other[k].Stats(); got != want {
			t.Errorf("SA %d: %+v, want %+v", k, got, want)
		}
	}
	if t.Log(forwarded, skipped, drops); forwarded < 50_000 || skipped < 1000 || drops[batch.XfrmInStateSeqError] < 10_000 || drops[batch.XfrmInStateExpired] < 1000 {
		t.Error("too few of a kind")
	}
}

// TestReplayedPacketsAreNotSlow: a peer's old packets, of many SAs, take at most 8 times as long as new ones. With a search in all
// packets that are confirmed together, they took 25 times as long.
func TestReplayedPacketsAreNotSlow(t *testing.T) {
	w, g := newWorld(t), &gateway.Gateway{}
	const sas, size, ratio = 1000, 4096, 8
	var reports [size]esp.SAReport
	for i := range sas {
		c := config(ipsec.In, false)
		c.Name, c.SPI, c.ReplayWindow, c.Tunnel = fmt.Sprint(i), uint32(0x1000+i), 1024, g.Tunnel(fmt.Sprint(i))
		sa, err := ipsec.NewSA(c, 2)
		require.NoError(t, err)
		require.NoError(t, g.Add(sa))
		for k := i; k < size; k += sas {
			reports[k] = esp.SAReport(k/sas+1)<<32 | esp.SAReport(sa.KeyIndex())
		}
	}
	w.Engine.Secure(g, 1)
	stage := w.Engine.ESP()
	in, out, results := make([]batch.Frame, size), make([]batch.Result, size), make([]batch.Result, size)
	confirm := func(want batch.Verdict) time.Duration {
		for i := range in {
			in[i] = batch.Frame{Addr: uint32(i)*4096 + 130, Len: 120, Origin: wan}
			results[i] = batch.ForwardTo(lan, in[i].Addr+36+esp.Admitted, 78)
		}
		start := time.Now()
		stage.BeginOpened(in, out, nil, gateway.MaxKeys)
		n := stage.AddOpened(0, results, reports[:], 3)
		stage.ConfirmOpened()
		took := time.Since(start)
		if n != size || out[0].Verdict != want || out[size-1].Verdict != want {
			t.Fatalf("%d packets added, verdicts %v and %v, want %v", n, out[0].Verdict, out[size-1].Verdict, want)
		}
		return took
	}
	fresh, replayed := time.Hour, time.Hour
	for range 8 { // the least of several times
		fresh = min(fresh, confirm(batch.Forward(lan)))
		replayed = min(replayed, confirm(batch.Drop(batch.XfrmInStateSeqError)))
		for i := range reports {
			reports[i] += (size/sas + 1) << 32
		}
	}
	if t.Logf("%d packets: %v, replays %v", size, fresh, replayed); replayed > ratio*fresh {
		t.Errorf("replays take %v, new packets %v: want at most %d times that", replayed, fresh, ratio)
	}
}

// TestAddOpenedRefusesOtherPackets: packets of SAs that have limits in packets, results that are not in place, and SAs that
// are not there. Nothing is counted for them.
func TestAddOpenedRefusesOtherPackets(t *testing.T) {
	w, g, sa := secured(t, config(ipsec.In, false))
	c := config(ipsec.In, false)
	c.SPI, c.Tunnel, c.Clock, c.Lifetime.Hard.Packets = 0x199, g.Tunnel("limited"), &g.Clock, 10
	limited, err := ipsec.NewSA(c, 2)
	require.NoError(t, err)
	require.NoError(t, g.Add(limited))
	c.SPI, c.Tunnel, c.Lifetime.Hard.Packets, c.ESN = 0x19a, g.Tunnel("extended"), 0, true
	extended, err := ipsec.NewSA(c, 2)
	require.NoError(t, err)
	require.NoError(t, g.Add(extended))
	w.Engine.Secure(g, 1)
	stage := w.Engine.ESP()
	f := batch.Frame{Addr: 130, Len: 200, Origin: wan}
	const inner = 20 + 8 + 8
	good, key := batch.ForwardTo(lan, 130+inner, 100), esp.SAReport(sa.KeyIndex())
	for name, x := range map[string]struct {
		f      batch.Frame
		r      batch.Result
		report esp.SAReport
	}{
		"limited":         {f, good, esp.SAReport(limited.KeyIndex())},
		"extended":        {f, good, esp.SAReport(extended.KeyIndex())},
		"no SA":           {f, good, 77},
		"beyond the keys": {f, good, gateway.MaxKeys},
		"elsewhere":       {f, batch.ForwardTo(lan, 130+inner+4, 100), key},
		"longer":          {f, batch.ForwardTo(lan, 130+inner, 165), key},
		"no packet":       {f, batch.ForwardTo(lan, 130+inner, 33), key},
		"short frame":     {batch.Frame{Addr: 130, Len: 60}, batch.ForwardTo(lan, 130+inner, 34), key},
	} {
		stage.BeginOpened([]batch.Frame{x.f}, make([]batch.Result, 1), nil, gateway.MaxKeys)
		if added(stage, 0, x.r, 1<<32|x.report) {
			t.Errorf("%s: is to be confirmed", name)
		}
		stage.ConfirmOpened()
		if stage.Received() != 0 || sa.Stats().Packets != 0 {
			t.Errorf("%s: counted", name)
		}
	}
	stage.BeginOpened([]batch.Frame{f}, make([]batch.Result, 1), nil, gateway.MaxKeys)
	if !added(stage, 0, good, 1<<32|key) {
		t.Error("a packet that fits needs a job")
	}
	stage.ConfirmOpened()
	if sa.Stats().Packets != 1 {
		t.Error("it is not counted")
	}
}

// The first SA of a chunk is that of its first packet, also if a later packet has a job, which is made before the others are
// confirmed.
func TestFirstSAIsThatOfTheFirstOpenedPacket(t *testing.T) {
	w, g, sa := secured(t, config(ipsec.In, false))
	c := config(ipsec.In, false)
	c.SPI, c.Tunnel = 0x199, g.Tunnel("other")
	other, err := ipsec.NewSA(c, 2)
	require.NoError(t, err)
	require.NoError(t, g.Add(other))
	w.Engine.Secure(g, 1)
	stage := w.Engine.ESP()
	const n = 64
	in, out, jobs := make([]batch.Frame, n), make([]batch.Result, n), make([]esp.Job, n)
	stage.BeginOpened(in, out, jobs, gateway.MaxKeys)
	for i := range in {
		in[i] = batch.Frame{Addr: uint32(i)*4096 + 130, Len: 200, Origin: wan}
		if i == 50 {
			if _, ok := stage.MakeOpenJob(in[i], &jobs[i], 1<<32|esp.SAReport(other.KeyIndex())); !ok {
				t.Fatal("no job")
			}
			continue
		}
		if !added(stage, i, batch.ForwardTo(lan, in[i].Addr+36, 100), esp.SAReport(i+1)<<32|esp.SAReport(sa.KeyIndex())) {
			t.Fatalf("packet %d needs a job", i)
		}
	}
	stage.ConfirmOpened()
	if first, count := stage.FirstSA(); first != sa || count != n-1 {
		t.Errorf("%v with %d packets, want the SA of the first packet with %d", first.Config().Name, count, n-1)
	}
}

// added adds packet i of the last chunk, with result r.
func added(s *esp.Stage, i int, r batch.Result, report esp.SAReport) bool {
	marked := batch.ForwardTo(r.Verdict.Port(), r.Addr()+esp.Admitted, r.Len())
	return s.AddOpened(i, []batch.Result{marked}, []esp.SAReport{report}, 3) == 1
}
