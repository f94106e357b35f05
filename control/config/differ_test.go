package config

import "testing"

func TestDiffersNamesThePart(t *testing.T) {
	if d := Default("a", "b").Differs(Default("a", "b")); d != "" {
		t.Errorf("equal ones differ in %s", d)
	}
	for want, change := range map[string]func(*Config){
		"ports":           func(c *Config) { c.Ports[1].Mode = ModeNative },
		"engine":          func(c *Config) { c.Engine = EngineCPU },
		"workers":         func(c *Config) { c.Workers = 3 },
		"batch":           func(c *Config) { c.Batch.MaxPackets = 1 },
		"metrics":         func(c *Config) { c.Metrics.Listen = "" },
		"control":         func(c *Config) { c.Control.Socket = "/x" },
		"napi":            func(c *Config) { c.NAPI = NAPIThread },
		"busy_poll":       func(c *Config) { c.BusyPoll = 1 },
		"checksum":        func(c *Config) { c.Checksum = ChecksumTrust },
		"ipsec.source":    func(c *Config) { c.IPsec.Source = SourceXFRM },
		"ipsec.state":     func(c *Config) { c.IPsec.State = "/x" },
		"ipsec.fragment":  func(c *Config) { c.IPsec.Fragment = FragmentAfter },
		"ipsec.mss_clamp": func(c *Config) { c.IPsec.MSSClamp = true },
		"":                func(c *Config) { c.IPsec.SAs = []SA{{Name: "a"}} },
	} {
		c := Default("a", "b")
		change(c)
		if d := Default("a", "b").Differs(c); d != want {
			t.Errorf("%q differs, want %q", d, want)
		}
	}
}
