package service

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/metrics"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/fib"
)

// running is a service of what a reload changes.
func running(t *testing.T) *Service {
	t.Helper()
	b := newBench(t, [2]func([]byte){func([]byte) {}, func([]byte) {}})
	cfg := config.Default("a", "b")
	cfg.Metrics.Listen = "127.0.0.1:0"
	cfg.IPsec = *generation(0)
	s := &Service{
		cfg: cfg, log: slog.New(slog.DiscardHandler), fib: b.fib, router: b.router, ipsec: b.protection, room: 256, scrape: http.NotFoundHandler(),
		sources: sources{
			ports: slices.Clone(cfg.Ports), now: make([]fib.Sources, 2),
			write: func(port int, is fib.Sources) { b.fib.SetSources(uint16(port), is) },
			name:  func(int) string { return "" },
		},
		config: status.ConfigState{Loaded: time.Now(), Reloads: map[status.ReloadResult]uint64{}},
	}
	var err error
	if s.metrics, err = metrics.Serve(cfg.Metrics.Listen, s.scrape); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.metrics.Close(); _ = b.protection.close() })
	if err := b.router.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// freeAddress returns an address that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func listens(address string) bool {
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}} // a socket can connect to itself
	c, err := from.Dial("tcp", address)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// Whichever part fails to prepare, those that had prepared are as before.
func TestAReloadThatFailsLeavesEveryPartAsItWas(t *testing.T) {
	s := running(t)
	old, sa := s.metrics.Addr().String(), s.ipsec.sas["out-100"]
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		part, want string
		change     func(*config.Config)
	}{
		{"metrics", "in use", func(c *config.Config) { c.Metrics.Listen = taken.Addr().String() }},
		{"IPsec", "replay window", func(c *config.Config) { c.IPsec.SAs[7].ReplayWindow = 1 << 20 }},
	} {
		cfg, address := config.Default("a", "b"), freeAddress(t)
		cfg.Metrics.Listen, cfg.Batch.MaxPackets, cfg.IPsec = address, 16, *generation(1)
		c.change(cfg)
		r := s.Reload(func() (*config.Config, error) { return cfg, nil }, false)
		if r.Result != status.ReloadFailed || !strings.Contains(r.Error, c.want) || len(r.Changes) < 1000 {
			t.Errorf("%s fails: %s, %q, %d changes", c.part, r.Result, r.Error, len(r.Changes))
		}
		if listens(address) || !listens(old) {
			t.Errorf("%s fails: metrics are served elsewhere", c.part)
		}
		if s.engine.MaxPackets != 0 || s.cfg.Batch.MaxPackets != 1024 || s.ipsec.sas["out-100"] != sa || s.ipsec.preparing {
			t.Errorf("%s fails: another configuration is in force", c.part)
		}
	}
	cfg, address := config.Default("a", "b"), freeAddress(t)
	cfg.Metrics.Listen, cfg.Batch.MaxPackets, cfg.IPsec = address, 16, *generation(1)
	r := s.Reload(func() (*config.Config, error) { return cfg, nil }, false)
	if r.Result != status.ReloadApplied || !listens(address) || listens(old) || s.engine.MaxPackets != 16 || s.ipsec.sas["out-100"] == sa {
		t.Errorf("what does not fail is not applied: %s, %q", r.Result, r.Error)
	}
	if n := s.config.Reloads; n[status.ReloadFailed] != 2 || n[status.ReloadApplied] != 1 || s.config.Loaded != s.config.Tried {
		t.Errorf("counted: %v", n)
	}
}

// What takes a restart is told with all its keys, and has the rest refused, too.
func TestAChangeThatTakesARestartHasAllRefused(t *testing.T) {
	s := running(t)
	cfg := config.Default("a", "c")
	cfg.Metrics, cfg.IPsec = s.cfg.Metrics, *generation(1)
	cfg.Batch.MaxPackets, cfg.Workers, cfg.IPsec.MSSClamp = 257, 2, true
	sa := s.ipsec.sas["out-100"]
	r := s.Reload(func() (*config.Config, error) { return cfg, nil }, false)
	if got := strings.Join(r.Restart, " "); r.Result != status.ReloadRefused || got != "ports.b ports.c workers batch.max_packets ipsec.mss_clamp" {
		t.Errorf("%s: %s", r.Result, got)
	}
	if s.ipsec.sas["out-100"] != sa {
		t.Error("a part of it was applied")
	}
	r = s.Reload(func() (*config.Config, error) { return nil, errors.New("no file") }, true)
	if r.Result != status.ReloadInvalid || r.Error != "no file" || s.config.Reloads[status.ReloadInvalid] != 0 {
		t.Errorf("a dry run of nothing: %+v", r)
	}
}

// Ports keep their numbers, in whichever order the file has them, and get what is said of
// them by name.
func TestPortsKeepTheirNumbers(t *testing.T) {
	s := running(t)
	for _, c := range []struct {
		ports []string
		b     config.ReversePath
		want  fib.ReversePath
	}{
		{[]string{"b", "a"}, config.ReversePathStrict, fib.StrictSource}, {[]string{"a", "b"}, config.ReversePathLoose, fib.LooseSource},
		{[]string{"b", "a"}, config.ReversePathOff, fib.AnySource},
	} {
		cfg := config.Default(c.ports...)
		cfg.Metrics, cfg.IPsec = s.cfg.Metrics, *generation(0)
		cfg.Ports[portOf(cfg, "b")].ReversePath = c.b
		r := s.Reload(func() (*config.Config, error) { return cfg, nil }, false)
		if r.Result != status.ReloadApplied || s.cfg.Ports[1] != (config.Port{Interface: "b", Mode: config.ModeAuto, ReversePath: c.b}) {
			t.Errorf("%s: %s, %q, %v", c.b, r.Result, r.Error, s.cfg.Ports)
		}
		if now := s.sources.now; now[0] != (fib.Sources{}) || now[1] != (fib.Sources{IPv4: c.want, IPv6: c.want}) || s.sources.ports[1].ReversePath != c.b {
			t.Errorf("%s: from then on %v, of %v", c.b, now, s.sources.ports)
		}
	}
	cfg := config.Default("a", "b")
	cfg.Metrics, cfg.IPsec, cfg.Ports[0].ReversePath = s.cfg.Metrics, *generation(0), config.ReversePathLoose
	if r := s.Reload(func() (*config.Config, error) { return cfg, nil }, false); r.Result != status.ReloadFailed || !strings.Contains(r.Error, "set reverse_path of the port") || s.sources.now[0] != (fib.Sources{}) {
		t.Errorf("a port of which Linux says nothing: %s, %q", r.Result, r.Error)
	}
	cfg = config.Default("a", "b")
	cfg.Metrics, cfg.IPsec, cfg.Ports[0].Mode = s.cfg.Metrics, *generation(0), config.ModeNative
	if r := s.Reload(func() (*config.Config, error) { return cfg, nil }, false); r.Result != status.ReloadRefused {
		t.Errorf("another mode: %s, %q", r.Result, r.Error)
	}
}

// A client whose reload was done learns of it, though the router stops right behind it.
func TestAReloadIsAnsweredBeforeTheEnd(t *testing.T) {
	for range 100 {
		s := &Service{reloads: make(chan ReloadRequest), ending: make(chan struct{})}
		go func() {
			q := <-s.ReloadRequests()
			q.Answer(&status.Reload{Result: status.ReloadApplied})
			close(s.ending)
		}()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "/reload", nil)
		if a, err := s.reloadFor(r); err != nil || a.(*status.Reload).Result != status.ReloadApplied {
			t.Fatalf("%v, %v", a, err)
		}
	}
}

// Metrics come to be served at all addresses, or at one, with the port as before.
func TestMetricsKeepTheirPort(t *testing.T) {
	s := running(t)
	_, port, _ := net.SplitHostPort(s.metrics.Addr().String())
	for _, host := range []string{"", "127.0.0.1", "localhost", "0.0.0.0"} {
		cfg := config.Default("a", "b")
		cfg.Metrics.Listen, cfg.IPsec = net.JoinHostPort(host, port), *generation(0)
		r := s.Reload(func() (*config.Config, error) { return cfg, nil }, false)
		if r.Result != status.ReloadApplied || !listens("127.0.0.1:"+port) || listens("127.0.0.2:"+port) != (host == "" || host == "0.0.0.0") {
			t.Errorf("%s: %s, %q", cfg.Metrics.Listen, r.Result, r.Error)
		}
		if l, err := net.Listen("tcp", cfg.Metrics.Listen); err == nil {
			l.Close()
			t.Errorf("%s is another's, too", cfg.Metrics.Listen)
		}
	}
}
