package ipsec

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestConfigurationErrorsNameTheFault(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string // "": none
	}{
		{func(*Config) {}, ""},
		{func(c *Config) { c.ReplayWindow = 0 }, ""},
		{func(c *Config) { c.ReplayWindow = 32 }, ""}, // strongSwan's default
		{func(c *Config) { c.SPI = 255 }, "SPI 0xff: those below 0x100 are reserved"},
		{func(c *Config) { c.Direction = 7 }, "direction is unknown (7)"},
		{func(c *Config) { c.Mode = 7 }, "mode is unknown (7)"},
		{func(c *Config) { c.DF = 7 }, "don't-fragment policy is unknown (7)"},
		{func(c *Config) { c.Src = netip.Addr{} }, `source address "invalid IP"`},
		{func(c *Config) { c.Dst = netip.MustParseAddr("fe80::1%eth0") }, `destination address "fe80::1%eth0"`},
		{func(c *Config) { c.Dst = netip.MustParseAddr("224.0.0.1") }, "want a plain IPv4 or IPv6 unicast"},
		{func(c *Config) { c.Dst = netip.MustParseAddr("::ffff:1.2.3.4") }, "want a plain IPv4 or IPv6 unicast"},
		{func(c *Config) { c.Dst = outer6[0] }, "are of two families"},
		{func(c *Config) { c.Dst = netip.IPv4Unspecified() }, "want one address"},
		{func(c *Config) { c.ReplayWindow = 5000 }, "replay window 5000: want 0 to 4096"},
		{func(c *Config) { c.ESN, c.ReplayWindow = true, 0 }, "extended sequence numbers need a replay window"},
		{func(c *Config) { c.ESN, c.ReplayWindow, c.Direction = true, 0, Out }, ""},
		{func(c *Config) { c.Encap = &Encap{4500, 0} }, "from port 4500 to port 0"},
		{func(c *Config) { c.Encap = &Encap{4500, 4501} }, "to port 4501: ESP in UDP is received at port 4500 alone"},
		{func(c *Config) { c.Direction, c.Encap = Out, &Encap{4500, 4501} }, ""},
		{func(c *Config) { c.Lifetime = Lifetime{Limits{Bytes: 9}, Limits{Bytes: 8}} }, "soft lifetime in bytes, 9, is beyond the hard one, 8"},
		{func(c *Config) { c.Lifetime.Soft.Age = time.Second }, "a lifetime in age needs a Clock"},
		{func(c *Config) { c.Lifetime.Soft.Age = -1 }, "an age is negative"},
		{func(c *Config) { c.Suite = "des" }, `suite "des" is unknown; supported: aes128gcm16`},
		{func(c *Config) { c.Key = c.Key[1:] }, "takes a key of 20 bytes (16 and a salt of 4), not 19"},
		{func(c *Config) { c.AuthKey = []byte{1} }, "an authentication key of 0 bytes, not 1"},
	} {
		conf := config(rand.New(rand.NewPCG(1, 1)), "aes128gcm16", Tunnel, true)
		conf.Name, conf.Direction = "to the office", In
		c.change(&conf)
		_, err := NewSA(conf, 1)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%v", err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `"to the office" (SPI `)):
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if _, err := NewSA(config(rand.New(rand.NewPCG(1, 1)), "aes128gcm16", Tunnel, true), 0); err == nil {
		t.Error("no workers: accepted")
	}
	_, err := NewSA(Config{}, 1)
	if err == nil || strings.Count(err.Error(), "\n") < 2 {
		t.Errorf("several faults: %v, want all of them", err)
	}
}

func TestSAsKeepNoKeys(t *testing.T) {
	conf := config(rand.New(rand.NewPCG(2, 2)), "aes256-sha512", Tunnel, true)
	s := newSA(t, conf, 2)
	if c := s.Config(); c.Key != nil || c.AuthKey != nil || c.SPI != conf.SPI {
		t.Errorf("the configuration is %+v", c)
	}
}

func TestErrorsHaveNamesAndSentences(t *testing.T) {
	seen := map[string]bool{}
	for e := range Errors + 3 {
		if e.String() == "" || e.Sentence() == "" || strings.HasSuffix(e.Sentence(), ".") {
			t.Errorf("error %d: %q, %q", e, e, e.Sentence())
		}
		if e < Errors && (seen[e.String()] || e != OK && !strings.HasPrefix(e.String(), "Xfrm")) {
			t.Errorf("error %d: %q is taken, or not in Linux's style", e, e)
		}
		seen[e.String()] = true
	}
}
