package icmp

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"
)

// from4 and from6 are packets from the i-th source, each of another network.
func from4(i int) []byte {
	p := offending4(10)
	binary.BigEndian.PutUint32(p[12:], 10<<24+uint32(i))
	return p
}

func from6(i int) []byte {
	p := offending6(10)
	binary.BigEndian.PutUint32(p[12:], uint32(i))
	return p
}

func allowed(l *Limiter, now time.Duration, n int, p []byte, c Cause) (count int) {
	for range n {
		if l.Allow(now, 0, p, c) {
			count++
		}
	}
	return count
}

func TestSourceGetsABurstAndThenItsRate(t *testing.T) {
	for name, p := range map[string][]byte{"IPv4": from4(1), "IPv6": from6(1)} {
		l := NewLimiter(Limits{Global: Rate{1000, 1000}, Source: Rate{10, 5}})
		now := 3 * time.Second
		if n := allowed(l, now, 100, p, TimeExceeded); n != 5 {
			t.Errorf("%s: %d at once, want a burst of 5", name, n)
		}
		if n := allowed(l, now+99*time.Millisecond, 100, p, TimeExceeded); n != 0 {
			t.Errorf("%s: %d before a token was filled in", name, n)
		}
		if n := allowed(l, now+200*time.Millisecond, 100, p, TimeExceeded); n != 2 {
			t.Errorf("%s: %d after two tokens were filled in, want 2", name, n)
		}
		if n := allowed(l, now+time.Hour, 100, p, TimeExceeded); n != 5 {
			t.Errorf("%s: %d after a long time, want no more than a burst", name, n)
		}
	}
}

func TestAddressesOfASubnetShareABucket(t *testing.T) {
	l := NewLimiter(Limits{Global: Rate{1000, 1000}, Source: Rate{1, 3}})
	n := 0
	for host := range 50 {
		p := from6(1)
		p[23] = byte(host)
		n += allowed(l, 0, 1, p, NoRoute)
	}
	if n != 3 {
		t.Errorf("%d errors to hosts of one /64, want 3", n)
	}
}

// One source takes nothing from another, but for those few that share a bucket.
func TestSourcesAreApart(t *testing.T) {
	l := NewLimiter(Limits{Global: Rate{1e6, 1e6}, Source: Rate{1, 3}})
	allowed(l, 0, 1000, from4(0), NoRoute)
	full := 0
	for i := 1; i <= 100; i++ {
		if allowed(l, 0, 5, from4(i), NoRoute) == 3 {
			full++
		}
	}
	if full < 85 { // 1.2 pairs of 100 share one of 4096 buckets
		t.Errorf("%d of 100 sources had their burst", full)
	}
}

// Equal sources in different VRFs are different hosts, but for those few VRFs that share a bucket.
func TestVRFsAreApart(t *testing.T) {
	l := NewLimiter(Limits{Global: Rate{1e6, 1e6}, Source: Rate{1, 3}})
	full := 0
	for vrf := range uint16(100) {
		n := 0
		for range 5 {
			if l.Allow(0, vrf, from4(1), NoRoute) {
				n++
			}
		}
		if n == 3 {
			full++
		}
	}
	if full < 85 {
		t.Errorf("the source had its burst in %d of 100 VRFs", full)
	}
}

func TestAllSourcesTogetherAreLimited(t *testing.T) {
	l := NewLimiter(Limits{Global: Rate{1000, 100}, Source: Rate{10, 10}})
	n := 0
	for ms := range 1000 {
		for i := range 20 {
			n += allowed(l, time.Duration(ms)*time.Millisecond, 1, from4(ms*20+i), NoRoute)
		}
	}
	if n < 1090 || n > 1100 {
		t.Errorf("%d in a second, want the burst of 100 and 1000 more", n)
	}
}

func TestPathMTUErrorsHaveABucketOfTheirOwn(t *testing.T) {
	l := NewLimiter(Limits{Global: Rate{1000, 100}, Source: Rate{10, 10}})
	for i := range 1000 {
		allowed(l, 0, 1, from4(i), TimeExceeded) // a flood of others
	}
	if n := allowed(l, 0, 1000, from4(0), TooBig); n != 100 {
		t.Errorf("%d to one source, want the global burst of 100", n)
	}
	if n := allowed(l, 0, 10, from4(5000), TimeExceeded); n != 0 {
		t.Errorf("%d others, want none", n)
	}
}

func TestRefusalsTakeNoToken(t *testing.T) {
	l := NewLimiter(Limits{Global: Rate{10, 10}, Source: Rate{1, 2}})
	allowed(l, 0, 1000, from4(1), NoRoute)
	if n := allowed(l, 0, 10, from4(2), NoRoute); n != 2 {
		t.Errorf("another source had %d, want 2: refusals were counted against all", n)
	}
}

func TestZeroRatesSendNothing(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		want   int
	}{
		"nothing at all":        {Limits{}, 0},
		"no rate of all":        {Limits{Source: Rate{10, 10}}, 0},
		"no rate of a source":   {Limits{Global: Rate{10, 10}}, 0},
		"no burst is one":       {Limits{Global: Rate{1, 0}, Source: Rate{1, -5}}, 1},
		"faster than the clock": {Limits{Global: Rate{1 << 40, 1}, Source: Rate{1 << 40, 1}}, 1},
	} {
		if n := allowed(NewLimiter(c.limits), time.Second, 10, from4(1), NoRoute); n != c.want {
			t.Errorf("%s: %d, want %d", name, n, c.want)
		}
	}
	if NewLimiter(DefaultLimits).Allow(0, 0, from4(1)[:19], NoRoute) {
		t.Error("half a header has a source")
	}
}

// Over any stretch of time no more pass than a burst and the rate allow, and no
// fewer if there was demand: a bucket as textbooks have it agrees at every step.
func TestBucketIsATokenBucket(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		rate := Rate{1 + rnd.IntN(2000), 1 + rnd.IntN(50)}
		i := rate.interval()
		var b bucket
		var now time.Duration
		tokens, full := time.Duration(rate.Burst)*i.token, time.Duration(rate.Burst)*i.token // in time
		for step := range 2000 {
			d := time.Duration(rnd.Int64N(int64(2 * i.token)))
			if rnd.IntN(50) == 0 {
				d *= 100
			}
			now, tokens = now+d, min(full, tokens+d)
			want := tokens >= i.token
			if got := b.has(now, i); got != want {
				t.Fatalf("%+v, step %d: %v, want %v", rate, step, got, want)
			}
			if want {
				tokens -= i.token
				b.take(now, i)
			}
		}
	}
}
