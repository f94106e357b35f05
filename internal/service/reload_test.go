package service

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
)

// running returns a service with the parts that a reload changes.
func running(t *testing.T) *Service {
	t.Helper()
	b := newBench(t, [2]func([]byte){func([]byte) {}, func([]byte) {}})
	cfg := config.Default("a", "b")
	cfg.Metrics.Listen = "127.0.0.1:0"
	cfg.IPsec = *generation(0)
	s := &Service{
		cfg: cfg, log: slog.New(slog.DiscardHandler), level: new(slog.LevelVar), fib: b.fib, router: b.router, ipsec: b.ipsecGateway, memory: memory{room: 256},
		metrics: metricsEndpoint(http.NotFoundHandler(), slog.New(slog.DiscardHandler)),
		page:    pageEndpoint(http.NotFoundHandler(), slog.New(slog.DiscardHandler)),
		reloads: newReloads(), hotplug: newHotplug(), ports: ports{configured: []portConfig{{Port: cfg.Ports[0]}, {Port: cfg.Ports[1]}}},
		rpf: portRPF{
			ports: slices.Clone(cfg.Ports), active: make([]fib.RPF, 2),
			set:  func(port int, check fib.RPF) { b.fib.SetRPF(uint16(port), check) },
			name: func(int) string { return "" },
		},
	}
	require.NoError(t, s.metrics.start(cfg, nil))
	t.Cleanup(func() { s.metrics.close(); s.page.close(); _ = b.ipsecGateway.close() })
	require.NoError(t, b.router.Start())
	return s
}

// freeAddress returns an address without a listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func listens(address string) bool {
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}} // so that the socket cannot connect to itself
	c, err := from.Dial("tcp", address)
	if err == nil {
		c.Close()
	}
	return err == nil
}

func TestFailedReloadLeavesEveryPartUnchanged(t *testing.T) {
	s := running(t)
	old, sa := s.metrics.server.Addr().String(), s.ipsec.sas["out-100"]
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for _, c := range []struct {
		part, want string
		change     func(*config.Config)
	}{
		{"metrics", "in use", func(c *config.Config) { c.Metrics.Listen = taken.Addr().String() }},
		{"status page", "set status.listen to another", func(c *config.Config) { c.Status.Listen = taken.Addr().String() }},
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
		if s.engine.state.MaxPackets != 0 || s.cfg.Batch.MaxPackets != 0 || s.ipsec.sas["out-100"] != sa || s.ipsec.prepared {
			t.Errorf("%s fails: another configuration is active", c.part)
		}
	}
	cfg, address := config.Default("a", "b"), freeAddress(t)
	cfg.Metrics.Listen, cfg.Batch.MaxPackets, cfg.Batch.MaxInFlight, cfg.IPsec, cfg.Log.Level = address, 16, 3, *generation(1), config.LogDebug
	r := s.Reload(func() (*config.Config, error) { return cfg, nil }, false)
	if s.level.Level() != slog.LevelDebug {
		t.Errorf("level %v after the reload", s.level)
	}
	if r.Result != status.ReloadApplied || !listens(address) || listens(old) || s.engine.state.MaxPackets != 16 || s.ipsec.sas["out-100"] == sa {
		t.Errorf("a valid configuration is not applied: %s, %q", r.Result, r.Error)
	}
	if c := s.reloads.current(); c.Reloads[status.ReloadFailed] != 3 || c.Reloads[status.ReloadApplied] != 1 || c.Loaded != c.Tried {
		t.Errorf("counted: %v", c)
	}
}

// Changes that need a restart are listed by key, and no other change is applied.
func TestReloadIsRefusedIfAChangeNeedsARestart(t *testing.T) {
	s := running(t)
	cfg := config.Default("a", "c")
	cfg.Metrics, cfg.IPsec = s.cfg.Metrics, *generation(1)
	cfg.Batch.MaxPackets, cfg.Workers, cfg.IPsec.MSSClamp = 257, 2, true
	sa := s.ipsec.sas["out-100"]
	r := s.Reload(func() (*config.Config, error) { return cfg, nil }, false)
	if got := strings.Join(r.Restart, " "); r.Result != status.ReloadRefused || got != "workers batch.max_packets ipsec.mss_clamp" {
		t.Errorf("%s: %s", r.Result, got)
	}
	if s.ipsec.sas["out-100"] != sa {
		t.Error("a part of it was applied")
	}
	r = s.Reload(func() (*config.Config, error) { return nil, errors.New("no file") }, true)
	if r.Result != status.ReloadInvalid || r.Error != "no file" || s.reloads.current().Reloads[status.ReloadInvalid] != 0 {
		t.Errorf("a dry run without a file: %+v", r)
	}
}

// Settings follow the name of a port; the order in the file has no effect.
func TestReloadKeepsPortNumbers(t *testing.T) {
	s := running(t)
	for _, c := range []struct {
		ports []string
		b     config.ReversePath
		want  fib.RPFMode
	}{
		{[]string{"b", "a"}, config.ReversePathStrict, fib.RPFStrict}, {[]string{"a", "b"}, config.ReversePathLoose, fib.RPFLoose},
		{[]string{"b", "a"}, config.ReversePathOff, fib.RPFOff},
	} {
		cfg := config.Default(c.ports...)
		cfg.Metrics, cfg.IPsec = s.cfg.Metrics, *generation(0)
		cfg.Ports[portIndex(cfg, "b")].ReversePath = c.b
		r := s.Reload(func() (*config.Config, error) { return cfg, nil }, false)
		if r.Result != status.ReloadApplied || s.cfg.Ports[portIndex(s.cfg, "b")] != (config.Port{Interface: "b", Mode: config.ModeAuto, ReversePath: c.b}) {
			t.Errorf("%s: %s, %q, %v", c.b, r.Result, r.Error, s.cfg.Ports)
		}
		if active := s.rpf.active; active[0] != (fib.RPF{}) || active[1] != (fib.RPF{IPv4: c.want, IPv6: c.want}) || s.rpf.ports[1].ReversePath != c.b {
			t.Errorf("%s: checks %v, ports %v", c.b, active, s.rpf.ports)
		}
	}
	cfg := config.Default("a", "b")
	cfg.Metrics, cfg.IPsec, cfg.Ports[0].ReversePath = s.cfg.Metrics, *generation(0), config.ReversePathLoose
	if r := s.Reload(func() (*config.Config, error) { return cfg, nil }, false); r.Result != status.ReloadFailed || !strings.Contains(r.Error, "set reverse_path of the port") || s.rpf.active[0] != (fib.RPF{}) {
		t.Errorf("a port without an rp_filter: %s, %q", r.Result, r.Error)
	}
	cfg = config.Default("a", "b")
	cfg.Metrics, cfg.IPsec, cfg.Ports[0].Mode = s.cfg.Metrics, *generation(0), config.ModeNative
	if r := s.Reload(func() (*config.Config, error) { return cfg, nil }, false); r.Result != status.ReloadRefused {
		t.Errorf("another mode: %s, %q", r.Result, r.Error)
	}
}

func TestReloadIsAnsweredBeforeStop(t *testing.T) {
	for range 100 {
		s := &Service{reloads: newReloads(), background: background{ending: make(chan struct{})}}
		go func() {
			q := <-s.ReloadRequests()
			q.Answer(&status.Reload{Result: status.ReloadApplied})
			close(s.ending)
		}()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "/reload", nil)
		if a, err := s.handleReload(r); err != nil || a.(*status.Reload).Result != status.ReloadApplied {
			t.Fatalf("%v, %v", a, err)
		}
	}
}

// The status page starts, moves and ends with a reload.
func TestReloadMovesTheStatusPage(t *testing.T) {
	s := running(t)
	was := ""
	for _, address := range []string{freeAddress(t), freeAddress(t), ""} {
		cfg := config.Default("a", "b")
		cfg.Metrics, cfg.Status.Listen, cfg.IPsec = s.cfg.Metrics, address, *generation(0)
		if r := s.Reload(func() (*config.Config, error) { return cfg, nil }, false); r.Result != status.ReloadApplied {
			t.Fatalf("%q: %s, %q", address, r.Result, r.Error)
		}
		if address != "" && !listens(address) || was != "" && listens(was) {
			t.Errorf("status.listen %q, before %q: serves the wrong one", address, was)
		}
		was = address
	}
}

// A reload moves metrics between TCP and a Unix socket, and adds a password at the same address. A web
// configuration that cannot be read changes nothing.
func TestReloadSecuresTheMetrics(t *testing.T) {
	s, dir, address := running(t), t.TempDir(), freeAddress(t)
	socket, web := filepath.Join(dir, "m.sock"), filepath.Join(dir, "web.yaml")
	reload := func(m config.Metrics) *status.Reload {
		cfg := config.Default("a", "b")
		cfg.Metrics, cfg.IPsec = m, *generation(0)
		return s.Reload(func() (*config.Config, error) { return cfg, nil }, false)
	}
	answer := func() int {
		resp, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	const hash = "$2y$04$abcdefghijklmnopqrstuuZ5B3m5dLqHqKpGZ1xkPjH0Z3nW8m5yS" // of no password that is tried
	require.NoError(t, os.WriteFile(web, []byte("basic_auth_users: {prometheus: \""+hash+"\"}\n"), 0o600))
	for _, c := range []struct {
		to     config.Metrics
		result status.ReloadResult
		unix   bool
		status int
	}{
		{config.Metrics{Listen: "unix:" + socket}, status.ReloadApplied, true, 0},
		{config.Metrics{Listen: address}, status.ReloadApplied, false, 404},
		{config.Metrics{Listen: address, WebConfig: filepath.Join(dir, "none")}, status.ReloadFailed, false, 404},
		{config.Metrics{Listen: address, WebConfig: web}, status.ReloadApplied, false, 401},
		{config.Metrics{Listen: "unix:" + socket}, status.ReloadApplied, true, 0},
		{config.Metrics{}, status.ReloadApplied, false, 0},
	} {
		r := reload(c.to)
		_, err := os.Lstat(socket)
		if got := answer(); r.Result != c.result || (err == nil) != c.unix || got != c.status {
			t.Errorf("%+v: %s, %q; socket: %v; HTTP status %d, want %d", c.to, r.Result, r.Error, err, got, c.status)
		}
	}
}

// A change between one and all addresses keeps the port of the metrics.
func TestReloadKeepsTheMetricsPort(t *testing.T) {
	s := running(t)
	_, port, _ := net.SplitHostPort(s.metrics.server.Addr().String())
	for _, host := range []string{"", "127.0.0.1", "localhost", "0.0.0.0"} {
		cfg := config.Default("a", "b")
		cfg.Metrics.Listen, cfg.IPsec = net.JoinHostPort(host, port), *generation(0)
		r := s.Reload(func() (*config.Config, error) { return cfg, nil }, false)
		if r.Result != status.ReloadApplied || !listens("127.0.0.1:"+port) || listens("127.0.0.2:"+port) != (host == "" || host == "0.0.0.0") {
			t.Errorf("%s: %s, %q", cfg.Metrics.Listen, r.Result, r.Error)
		}
		if l, err := net.Listen("tcp", cfg.Metrics.Listen); err == nil {
			l.Close()
			t.Errorf("%s has another listener", cfg.Metrics.Listen)
		}
	}
}
