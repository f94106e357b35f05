package config

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fullConfig returns a configuration without empty lists.
func fullConfig() *Config {
	c := Default("a", "b")
	any := netip.MustParsePrefix("0.0.0.0/0")
	for _, name := range []string{"x", "y"} {
		c.IPsec.SAs = append(c.IPsec.SAs, SA{Name: name, SPI: 0x100, Direction: DirectionOut, Mode: SATunnel, Suite: "aes128gcm16", Key: NewKey([]byte("secret" + name)),
			Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), DF: DFCopy})
		c.IPsec.Policies = append(c.IPsec.Policies, Policy{Direction: DirectionOut, Src: any, Dst: any, SrcPorts: AnyPort, DstPorts: AnyPort, Action: ActionProtect, SA: name})
	}
	return c
}

func TestDiffReportsEachChange(t *testing.T) {
	if d := Diff(fullConfig(), fullConfig()); len(d) != 0 {
		t.Errorf("equal configurations differ in %v", d)
	}
	for want, change := range map[string]func(*Config){
		"~ ports.b: mode auto -> mode native": func(c *Config) { c.Ports[1].Mode = ModeNative },
		"- ports.a: mode auto":                func(c *Config) { c.Ports = c.Ports[1:] },
		"+ ports.c: mode generic": func(c *Config) {
			c.Ports = append(c.Ports, Port{Interface: "c", Mode: ModeGeneric, ReversePath: ReversePathAuto})
		},
		"~ ports.a: mode auto -> mode auto reverse_path loose": func(c *Config) { c.Ports[0].ReversePath = ReversePathLoose },
		"":                               func(c *Config) { c.Ports[0], c.Ports[1] = c.Ports[1], c.Ports[0] },
		"~ engine: auto -> cpu":          func(c *Config) { c.Engine = EngineCPU },
		"~ gpu.park: 2s -> 0s":           func(c *Config) { c.GPU.Park = 0 },
		"~ gpu.multiprocessors: 0 -> 32": func(c *Config) { c.GPU.Multiprocessors = 32 },
		"~ gpu.memory: keep -> release":  func(c *Config) { c.GPU.Memory = GPUMemoryRelease },
		"~ shadow: 1024 -> 0":            func(c *Config) { c.Shadow = 0 },
		"~ workers: 0 -> 3":              func(c *Config) { c.Workers = 3 },
		"~ cores: auto -> 4,1,2":         func(c *Config) { c.Cores = []int{4, 1, 2} },
		"~ batch.max_packets: 0 -> 1":    func(c *Config) { c.Batch.MaxPackets = 1 },
		"~ batch.max_in_flight: 0 -> 6":  func(c *Config) { c.Batch.MaxInFlight = 6 },
		"~ batch.max_bytes: 0 -> 65536":  func(c *Config) { c.Batch.MaxBytes = 65536 },
		"~ lanes: default -> a 1ms 0% for dscp 46 48 protocol 17 from port 1 to ports 2-3 plain or all, b 1s 100%": func(c *Config) {
			c.Lanes = []Lane{
				{"a", []LaneMatch{{[]int{46, 48}, 17, PortRange{1, 1}, PortRange{2, 3}, true}, {SrcPorts: AnyPort, DstPorts: AnyPort}}, time.Millisecond, 0},
				{"b", nil, time.Second, 100},
			}
		},
		"~ batch.max_delay: 50µs -> 0s":                                               func(c *Config) { c.Batch.MaxDelay = 0 },
		`~ metrics.listen: "127.0.0.1:9273" -> ""`:                                    func(c *Config) { c.Metrics.Listen = "" },
		`~ metrics.web_config: "" -> "/etc/web.yaml"`:                                 func(c *Config) { c.Metrics.WebConfig = "/etc/web.yaml" },
		`~ status.listen: "" -> ":9274"`:                                              func(c *Config) { c.Status.Listen = ":9274" },
		"~ control.socket: /run/warproute/control.sock -> /x":                         func(c *Config) { c.Control.Socket = "/x" },
		`~ control.group: "" -> "netadmin"`:                                           func(c *Config) { c.Control.Group = "netadmin" },
		`~ privileges.user: "" -> "warproute"`:                                        func(c *Config) { c.Privileges.User = "warproute" },
		"~ privileges.seccomp: true -> false":                                         func(c *Config) { c.Privileges.Seccomp = false },
		"~ napi: interrupt -> thread":                                                 func(c *Config) { c.NAPI = NAPIThread },
		"~ busy_poll: 0s -> 1µs":                                                      func(c *Config) { c.BusyPoll = 1000 },
		"~ log.format: auto -> json":                                                  func(c *Config) { c.Log.Format = LogJSON },
		"~ log.level: info -> debug":                                                  func(c *Config) { c.Log.Level = LogDebug },
		"~ checksum: auto -> trust":                                                   func(c *Config) { c.Checksum = ChecksumTrust },
		"~ ipsec.source: config -> xfrm":                                              func(c *Config) { c.IPsec.Source = SourceXFRM },
		"~ ipsec.state: /var/lib/warproute -> /x":                                     func(c *Config) { c.IPsec.State = "/x" },
		"~ ipsec.linux_forwarding: drop -> allow":                                     func(c *Config) { c.IPsec.LinuxForwarding = LinuxForwardingAllow },
		"~ ipsec.fragment: before -> after":                                           func(c *Config) { c.IPsec.Fragment = FragmentAfter },
		`~ ipsec.interface: "" -> "ipsec0"`:                                           func(c *Config) { c.IPsec.Interface = "ipsec0" },
		"~ ipsec.icmp: quoted -> strict":                                              func(c *Config) { c.IPsec.ICMP = ICMPStrict },
		"~ ipsec.path_mtu: learn -> off":                                              func(c *Config) { c.IPsec.PathMTU = PathMTUOff },
		"~ ipsec.mss_clamp: false -> true":                                            func(c *Config) { c.IPsec.MSSClamp = true },
		"- ipsec.sas.y: out spi 0x100 tunnel from 192.0.2.1 to 192.0.2.2 aes128gcm16": func(c *Config) { c.IPsec.SAs = c.IPsec.SAs[:1] },
		"~ ipsec.sas.x: spi 0x100 old key -> spi 0x101 new key":                       func(c *Config) { c.IPsec.SAs[0].SPI++; c.IPsec.SAs[0].Key = NewKey([]byte("other")) },
		"~ ipsec.sas.y: old key -> new key":                                           func(c *Config) { c.IPsec.SAs[1].AuthKey = NewKey([]byte("other")) },
		"~ ipsec.sas.y: lifetime unlimited soft unlimited -> lifetime 9 packets, 8000 bytes soft 1m0s": func(c *Config) {
			c.IPsec.SAs[1].Lifetime = Lifetime{Hard: Limits{Packets: 9, Bytes: 8000}, Soft: Limits{Seconds: 60}}
		},
		"- ipsec.policies: out 0.0.0.0/0 > 0.0.0.0/0 protect y\n+ ipsec.policies: out 0.0.0.0/0 > 0.0.0.0/0 ports 1-2 protocol 17 discard": func(c *Config) {
			p := &c.IPsec.Policies[1]
			p.DstPorts, p.Protocol, p.Action, p.SA = PortRange{1, 2}, 17, ActionDiscard, ""
		},
		"+ ipsec.policies: out 0.0.0.0/0 > 0.0.0.0/0 protect x": func(c *Config) { c.IPsec.Policies = append(c.IPsec.Policies, c.IPsec.Policies[0]) },
		"~ ipsec.policies: 2 policies -> reordered":             func(c *Config) { p := c.IPsec.Policies; p[0], p[1] = p[1], p[0] },
	} {
		c := fullConfig()
		change(c)
		var lines []string
		for _, d := range Diff(fullConfig(), c) {
			lines = append(lines, d.String())
		}
		if diff := cmp.Diff(want, strings.Join(lines, "\n")); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

// Diff compares every field of an SA, also future ones, and prints no key.
func TestDiffComparesEveryFieldOfAnSA(t *testing.T) {
	typ := reflect.TypeFor[SA]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		if strings.HasSuffix(f.Name, "Key") || strings.HasSuffix(f.Name, "KeyFile") || f.Name == "Name" || f.Name == "Src" || f.Name == "Dst" {
			continue // compared separately, or in TestDiffReportsEachChange
		}
		c := fullConfig()
		bump(t, reflect.ValueOf(&c.IPsec.SAs[0]).Elem().Field(i))
		d := Diff(fullConfig(), c)
		if len(d) != 1 || d[0].From == d[0].To {
			t.Errorf("%s: %v", f.Name, d)
		}
		if strings.Contains(d[0].String(), "secret") {
			t.Errorf("%s: %v reveals a key", f.Name, d[0])
		}
	}
}

// Diff compares every value of the configuration, also future ones.
func TestDiffComparesEveryValue(t *testing.T) {
	var walk func(path string, of func(*Config) reflect.Value)
	walk = func(path string, of func(*Config) reflect.Value) {
		if v := of(fullConfig()); v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.IsExported() {
					walk(path+"."+f.Name, func(c *Config) reflect.Value { return of(c).Field(i) })
				}
			}
			return
		} else if v.Kind() == reflect.Slice { // ports, SAs and policies are in TestDiffReportsEachChange
			return
		}
		c := fullConfig()
		bump(t, of(c))
		if d := Diff(fullConfig(), c); len(d) != 1 {
			t.Errorf("%s: %v", path, d)
		}
	}
	walk("", func(c *Config) reflect.Value { return reflect.ValueOf(c).Elem() })
}

// bump changes a value, or the first field of a struct.
func bump(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Struct:
		bump(t, v.Field(0))
	default:
		t.Fatalf("a value of kind %v", v.Kind())
	}
}
