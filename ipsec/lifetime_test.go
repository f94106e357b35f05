package ipsec

import (
	"math/rand/v2"
	"testing"
	"time"
)

// send sends a packet of n bytes and returns the results of both sides.
func send(t *testing.T, rnd *rand.Rand, out, in *SA, n int) (sent, received Error) {
	t.Helper()
	p := ipPacket(rnd, true, 17, n-20)
	f := frame(p)
	at, n, sent := out.Encapsulate(0, f, frameRoom, n)
	if sent != OK {
		return sent, OK
	}
	_, _, received = in.Decapsulate(0, f, at, n)
	return OK, received
}

func TestLifetimes(t *testing.T) {
	const size = 100 // bytes of a packet
	for _, c := range []struct {
		name       string
		life       Lifetime
		soft, hard int // packets up to which the limit is not reached; 0: never
	}{
		{"packets", Lifetime{Limits{Packets: 3}, Limits{Packets: 5}}, 2, 5},
		{"bytes", Lifetime{Limits{Bytes: 250}, Limits{Bytes: 350}}, 2, 4},
		{"bytes, exactly", Lifetime{Limits{Bytes: 300}, Limits{Bytes: 300}}, 2, 3},
		{"soft alone", Lifetime{Soft: Limits{Packets: 3}}, 2, 0},
		{"hard alone", Lifetime{Hard: Limits{Packets: 5}}, 0, 5},
		{"whichever is first", Lifetime{Limits{Packets: 7, Bytes: 250}, Limits{Packets: 5, Bytes: 1 << 30}}, 2, 5},
		{"none", Lifetime{}, 0, 0},
	} {
		if c.life.Soft.Packets > c.life.Hard.Packets {
			c.life.Soft.Packets = c.life.Hard.Packets
		}
		for _, limited := range []Direction{Out, In} {
			rnd := rand.New(rand.NewPCG(1, 1))
			conf := config(rnd, "aes128gcm16", Tunnel, true)
			out, in := pair(t, conf)
			sa, refusal := out, OutStateExpired
			if conf.Lifetime = c.life; c.name == "soft alone" {
				conf.Lifetime.Soft.Packets = 3
			}
			if limited == Out {
				out = newSA(t, conf, 1)
				sa = out
			} else {
				conf.Direction = In
				in = newSA(t, conf, 1)
				sa, refusal = in, InStateExpired
			}
			for i := 1; i <= 10; i++ {
				// Forged packets do not count.
				f := frame(ipPacket(rnd, true, protoESP, 80))
				in.Decapsulate(0, f, frameRoom, 100)

				sent, received := send(t, rnd, out, in, size)
				got, want := max(sent, received), OK
				if c.hard != 0 && i > c.hard {
					want = refusal
				}
				if got != want {
					t.Errorf("%s, %v: packet %d: got %v, want %v", c.name, limited, i, got, want)
				}
				if got, want := sa.SoftExpired(), c.soft != 0 && i == c.soft+1; got != want {
					t.Errorf("%s, %v: soft limit after packet %d: %v, want %v", c.name, limited, i, got, want)
				}
				if got, want := sa.HardExpired(), c.hard != 0 && i > c.hard; got != want {
					t.Errorf("%s, %v: hard limit after packet %d: %v, want %v", c.name, limited, i, got, want)
				}
			}
		}
	}
}

// Earlier use counts, and an expired SA stays expired.
func TestLifetimesContinue(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	for _, c := range []struct {
		name string
		life Lifetime
		used Limits
		left int // packets of 100 bytes
	}{
		{"packets", Lifetime{Hard: Limits{Packets: 5}}, Limits{Packets: 3, Bytes: 1 << 40}, 2},
		{"bytes", Lifetime{Hard: Limits{Bytes: 500}}, Limits{Packets: 1 << 40, Bytes: 301}, 2},
		{"all packets", Lifetime{Hard: Limits{Packets: 5}}, Limits{Packets: 5}, 0},
		{"more bytes than all", Lifetime{Hard: Limits{Bytes: 500}}, Limits{Bytes: 600}, 0},
	} {
		for _, soft := range []Limits{{}, c.used} {
			conf := config(rnd, "aes128gcm16", Tunnel, true)
			_, in := pair(t, conf)
			conf.Lifetime = c.life
			if c.left > 0 {
				conf.Lifetime.Soft = Limits{Packets: min(soft.Packets, c.life.Hard.Packets), Bytes: min(soft.Bytes, c.life.Hard.Bytes)}
			}
			out := newSA(t, conf, 1)
			out.SetPreviousUse(c.used)
			if is, want := out.SoftExpired(), conf.Lifetime.Soft != (Limits{}); is != want {
				t.Errorf("%s: soft limit reached: %v, want %v", c.name, is, want)
			}
			if is := out.HardExpired(); is != (c.left == 0) {
				t.Errorf("%s: hard limit reached: %v", c.name, is)
			}
			passed := 0
			for range 10 {
				if sent, _ := send(t, rnd, out, in, 100); sent == OK {
					passed++
				} else if sent != OutStateExpired {
					t.Fatal(c.name, sent)
				}
			}
			if passed != c.left {
				t.Errorf("%s: %d packets pass, want %d", c.name, passed, c.left)
			}
		}
	}
}

func TestLifetimeInAge(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	conf := config(rnd, "aes128gcm16", Tunnel, true)
	conf.Clock = new(Clock)
	conf.Clock.Set(time.Hour)
	conf.Lifetime = Lifetime{Limits{Age: 20 * time.Minute}, Limits{Age: 30 * time.Minute}}
	out, in := pair(t, conf)
	for _, s := range []*SA{out, in} {
		s.SetPreviousUse(Limits{Age: 10 * time.Minute})
	}
	for _, c := range []struct {
		at   time.Duration // since now
		soft bool
		want Error
	}{{0, false, OK}, {9 * time.Minute, false, OK}, {10 * time.Minute, true, OK}, {19 * time.Minute, false, OK}, {20 * time.Minute, false, OutStateExpired},
		{5 * time.Minute, false, OutStateExpired}} { // the clock does not go back
		conf.Clock.Set(time.Hour + c.at)
		sent, received := send(t, rnd, out, in, 60)
		if sent != c.want || received != OK {
			t.Errorf("after %v: got %v, %v, want %v", c.at, sent, received, c.want)
		}
		if got := out.SoftExpired(); got != c.soft {
			t.Errorf("after %v: soft limit %v, want %v", c.at, got, c.soft)
		}
	}
	if _, _, e := in.Decapsulate(0, frame(ipPacket(rnd, true, protoESP, 80)), frameRoom, 100); e != InStateExpired || !in.HardExpired() {
		t.Errorf("inbound, too old: got %v", e)
	}
}

func TestKilledSAsRefuseEverything(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	for _, conf := range []Config{config(rnd, "aes128gcm16", Tunnel, true), config(rnd, "aes256-sha512", Tunnel, true)} {
		out, in := pair(t, conf)
		if sent, received := send(t, rnd, out, in, 60); sent != OK || received != OK {
			t.Fatal(sent, received)
		}
		for _, zero := range []bool{false, true} {
			out.Kill()
			in.Kill()
			if zero {
				out.Zero()
				in.Zero()
			}
			if sent, _ := send(t, rnd, out, in, 60); sent != OutStateInvalid {
				t.Errorf("sending by a killed association: %v", sent)
			}
			if _, _, e := in.Decapsulate(0, frame(ipPacket(rnd, true, protoESP, 80)), frameRoom, 100); e != InStateInvalid {
				t.Errorf("receiving by a killed association: %v", e)
			}
		}
	}
}

func TestSAsHaveOneDirection(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	out, in := pair(t, config(rnd, "aes128gcm16", Tunnel, true))
	p := ipPacket(rnd, true, 17, 40)
	if _, _, e := in.Encapsulate(0, frame(p), frameRoom, len(p)); e != OutStateDirError {
		t.Errorf("sending by an inbound association: %v", e)
	}
	if _, _, e := out.Decapsulate(0, frame(p), frameRoom, len(p)); e != InStateDirError {
		t.Errorf("receiving by an outbound association: %v", e)
	}
	for _, n := range []int{-1, frameLen} { // an engine's mistake
		if _, _, e := out.Encapsulate(0, frame(p), frameRoom, n); e != OutError {
			t.Errorf("sending %d bytes: %v", n, e)
		}
		if _, _, e := in.Decapsulate(0, frame(p), frameRoom, n); e != InBufferError {
			t.Errorf("receiving %d bytes: %v", n, e)
		}
	}
}
