package config

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

var values = cmp.Options{cmpopts.IgnoreUnexported(Config{}), cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})}

func TestOnlyPortsAreRequired(t *testing.T) {
	got, err := Parse("f.yaml", []byte("ports:\n  - interface: lan0\n  - interface: wan0\n"))
	require.NoError(t, err)
	if diff := cmp.Diff(Default("lan0", "wan0"), got, values); diff != "" {
		t.Errorf("a file with ports alone differs from the flags --port lan0 --port wan0 (-flags +file):\n%s", diff)
	}
}

func TestEveryKeyIsRead(t *testing.T) {
	got, err := Parse("f.yaml", []byte(`
ports:
  - {interface: "1e3", queues: all, mode: zero-copy, reverse_path: off}
  - {interface: wan0, mode: generic, reverse_path: strict}
engine: cpu
gpu: {park: 0s, multiprocessors: 32, memory: release}
shadow: 7
workers: 3
cores: [7, "2-3"]
batch: {max_packets: 1, max_delay: 1ms}
metrics: {listen: ""}
status: {listen: ":9274"}
control: {socket: /tmp/w.sock, group: netadmin}
privileges: {user: warproute, seccomp: false}
log: {format: json, level: warn}
napi: interrupt
busy_poll: 20us
checksum: repair
icmp: {per_second: 0, burst: 1, source_per_second: 2, source_burst: 3}
exit: {linux: on, share: 7}
ipsec: {source: xfrm, state: /tmp/w, mss_clamp: true, fragment: after, icmp: strict, path_mtu: off, interface: ipsec0, linux_forwarding: allow}
`))
	require.NoError(t, err)
	want := &Config{
		Ports:   []Port{{Interface: "1e3", Mode: ModeZeroCopy, ReversePath: ReversePathOff}, {Interface: "wan0", Mode: ModeGeneric, ReversePath: ReversePathStrict}},
		Engine:  EngineCPU,
		GPU:     GPU{Multiprocessors: 32, Memory: GPUMemoryRelease},
		Shadow:  7,
		Workers: 3,
		Cores:   []int{7, 2, 3},
		Batch:   Batch{MaxPackets: 1, MaxDelay: time.Millisecond},
		Status:  Status{":9274"},
		Log:     Log{LogJSON, LogWarn},
		Control: Control{Socket: "/tmp/w.sock", Group: "netadmin"}, Privileges: Privileges{User: "warproute"},
		NAPI:     NAPIInterrupt,
		BusyPoll: 20 * time.Microsecond,
		Checksum: ChecksumRepair,
		ICMP:     ICMP{0, 1, 2, 3},
		Exit:     Exit{ExitOn, 7},
		IPsec:    IPsec{Source: SourceXFRM, State: "/tmp/w", MSSClamp: true, Fragment: FragmentAfter, ICMP: ICMPStrict, PathMTU: PathMTUOff, Interface: "ipsec0", LinuxForwarding: LinuxForwardingAllow},
	}
	if diff := cmp.Diff(want, got, values); diff != "" {
		t.Error(diff)
	}
}

func TestParseAcceptsByteOrderMarkAndUTF8(t *testing.T) {
	c, err := Parse("f.yaml", []byte("\ufeffports:\n  - interface: büro0\n"))
	if err != nil || c.Ports[0].Interface != "büro0" {
		t.Errorf("got %+v, %v", c, err)
	}
}

const onePort = "ports: [{interface: lan0}]\n"

func TestParseReportsPositionAndHintOfMistakes(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty file", "", "f:1:1: no ports; add `- interface: eth0` below `ports:`, or pass --port eth0"},
		{"empty list of ports", "engine: cpu\nports: []\n", "f:2:8: no ports; add `- interface: eth0` below `ports:`, or pass --port eth0"},
		{"unknown key similar to a known one", onePort + "enigne: cpu\n", `f:2:1: unknown key "enigne"; did you mean "engine"?`},
		{"unknown key similar to none", onePort + "firewall: {}\n", `f:2:1: unknown key "firewall"; the known keys are ports, max_ports, engine, gpu, shadow, workers, cores, batch, lanes, metrics, status, control, privileges, napi, busy_poll, log, checksum, icmp, exit, ipsec`},
		{"unknown key in a mapping", onePort + "batch:\n  max_packet: 5\n", `f:3:3: unknown key "max_packet" in batch; did you mean "max_packets"?`},
		{"misspelt interface is reported once", "ports:\n  - interfce: lan0\n", `f:2:5: unknown key "interfce" in ports[0]; did you mean "interface"?`},
		{"misspelt ports are reported once", "port:\n  - interface: lan0\n", `f:1:1: unknown key "port"; did you mean "ports"?`},
		{"duplicate key", onePort + "engine: cpu\nengine: gpu\n", `f:3:1: duplicate key "engine", first in line 2; remove one of the two`},
		{"string for a number", onePort + "workers: many\n", `f:2:10: workers must be an integer, not the string "many"; write an integer such as 0`},
		{"fraction for an integer", onePort + "batch: {max_packets: 1.5}\n", `f:2:22: batch.max_packets must be an integer, not the number 1.5; write an integer such as 1024`},
		{"number over 63 bits", onePort + "workers: 0xffffffffffffffff\n", `f:2:10: workers: 18446744073709551615 is out of range; write an integer such as 0`},
		{"number over 64 bits", onePort + "workers: 99999999999999999999\n", `f:2:10: workers: 99999999999999999999 is out of range; write an integer such as 0`},
		{"unprintable interface name", "ports: [{interface: \"lan\\u200b0\"}]\n", "f:1:21: \"lan\\u200b0\" is not a valid interface name; write a name that `ip link` shows"},
		{"number for a string", "ports: [{interface: 5}]\n", `f:1:21: ports[0].interface must be a string, not the number 5; quote the value: "5"`},
		{"mapping for a list", "ports: {interface: lan0}\n", "f:1:9: ports must be a list, not a mapping; begin each entry with `- `"},
		{"number for a port", "ports:\n  - 5\n", "f:2:5: ports[0] must be a mapping with the keys interface, queues, mode, reverse_path, not the number 5; write `key: value` lines below it"},
		{"file of another program", "root:x:0:0:root:/root:/bin/bash\nproxy:x:13:13:proxy:/bin:/usr/sbin/nologin\n", "f:1:1: the file must be a mapping with the keys ports, max_ports, engine, gpu, shadow, workers, cores, batch, lanes, metrics, status, control, privileges, napi, busy_poll, log, checksum, icmp, exit, ipsec, not the string \"root:x:0:0:root:/root:/bin/bash proxy:x:\"; write `key: value` lines below it"},
		{"list for the file", "- a\n", "f:1:1: the file must be a mapping with the keys ports, max_ports, engine, gpu, shadow, workers, cores, batch, lanes, metrics, status, control, privileges, napi, busy_poll, log, checksum, icmp, exit, ipsec, not a list; write `key: value` lines below it"},
		{"key without a value", onePort + "metrics:\n", "f:2:10: metrics has no value; add a value, or remove the line to use the default"},
		{"alias", "ports: [{interface: &a lan0}, {interface: *a}]\n", "f:1:43: ports[1].interface is an alias, which is not supported; write the value itself"},
		{"port without an interface", "ports:\n  - mode: auto\n", "f:2:5: ports[0] has no interface; add `interface: NAME`, a name that `ip link` shows"},
		{"duplicate interface", "ports:\n  - interface: lan0\n  - interface: wan0\n  - interface: lan0\n", `f:4:16: interface "lan0" is already a port in line 2; remove one of the two`},
		{"interface name too long", "ports: [{interface: sixteen-letters0}]\n", "f:1:21: \"sixteen-letters0\" is not a valid interface name; write a name that `ip link` shows"},
		{"unknown reverse path", "ports: [{interface: lan0, reverse_path: tight}]\n", `f:1:41: ports[0].reverse_path: unknown value "tight"; write auto, off, loose or strict`},
		{"unknown mode", "ports: [{interface: lan0, mode: fast}]\n", `f:1:33: ports[0].mode: unknown value "fast"; write auto, zero-copy, native or generic`},
		{"number of queues", "ports: [{interface: lan0, queues: 4}]\n", `f:1:35: ports[0].queues must be a string, not the number 4; write all`},
		{"unknown engine", onePort + "engine: fpga\n", `f:2:9: engine: unknown value "fpga"; write auto, cpu or gpu`},
		{"negative workers", onePort + "workers: -1\n", "f:2:10: workers: -1 is out of range; write 0 for one worker per queue, or a number up to 1024"},
		{"empty chunk", onePort + "batch: {max_packets: -1}\n", "f:2:22: batch.max_packets: -1 is out of range; write 0 for the default, or a number up to 2048"},
		{"chunk too large", onePort + "batch: {max_packets: 2049}\n", "f:2:22: batch.max_packets: 2049 is out of range; write 0 for the default, or a number up to 2048"},
		{"burst of 0 errors", onePort + "icmp: {burst: 0}\n", "f:2:15: icmp.burst: 0 is out of range; write a number from 1 to 1000000"},
		{"negative rate", onePort + "icmp: {source_per_second: -1}\n", "f:2:27: icmp.source_per_second: -1 is out of range; write a number from 0 to 1000000"},
		{"duration without a unit", onePort + "batch: {max_delay: 50}\n", `f:2:20: batch.max_delay: "50" is not a duration; write a number and its unit (ns, us, ms, s), as in 50us or 1ms`},
		{"NAPI thread and busy polling", onePort + "napi: thread\nbusy_poll: 1us\n", "f:2:7: napi: thread excludes busy_poll: a polling worker starves the NAPI thread on its core; remove one of the two"},
		{"parking too soon", onePort + "gpu: {park: 1ms}\n", "f:2:13: gpu.park: 1ms is out of range; write 0s to never park, or a duration from 10ms to 1h0m0s"},
		{"parking too late", onePort + "gpu: {park: 2h}\n", "f:2:13: gpu.park: 2h0m0s is out of range; write 0s to never park, or a duration from 10ms to 1h0m0s"},
		{"negative parking", onePort + "gpu: {park: -2s}\n", "f:2:13: gpu.park: -2s is out of range; write 0s to never park, or a duration from 10ms to 1h0m0s"},
		{"negative multiprocessors", onePort + "gpu: {multiprocessors: -8}\n", "f:2:24: gpu.multiprocessors: -8 is out of range; write 0 for all of each GPU, or a number up to 1024"},
		{"unknown GPU memory", onePort + "gpu: {memory: free}\n", `f:2:15: gpu.memory: unknown value "free"; write keep or release`},
		{"unknown GPU key", onePort + "gpu: {parking: 2s}\n", `f:2:7: unknown key "parking" in gpu; the known keys are park, multiprocessors, memory`},
		{"negative shadow", onePort + "shadow: -1\n", "f:2:9: shadow: -1 is out of range; write 0 for no comparison, or a number up to 1073741824"},
		{"negative duration", onePort + "busy_poll: -1us\n", "f:2:12: busy_poll: -1µs is out of range; write a duration from 0s to 10ms"},
		{"delay too long", onePort + "batch: {max_delay: 1m}\n", "f:2:20: batch.max_delay: 1m0s is out of range; write a duration from 0s to 1s"},
		{"listen without a port", onePort + "metrics: {listen: 127.0.0.1}\n", `f:2:19: metrics.listen: "127.0.0.1" is not an address and a port; write one such as "127.0.0.1:9273" or "[::1]:9273", or "" to disable metrics`},
		{"metrics on a relative path", onePort + "metrics: {listen: \"unix:m.sock\"}\n", `f:2:19: metrics.listen: "m.sock" is not the absolute path of a file; write one such as unix:/run/warproute/metrics.sock`},
		{"status page on a Unix socket", onePort + "status: {listen: \"unix:/run/s.sock\"}\n", `f:2:18: status.listen: "unix:/run/s.sock" is not an address and a port; write one such as "127.0.0.1:9274" or "[::1]:9274", or "" to disable the status page`},
		{"relative web configuration", onePort + "metrics: {web_config: web.yaml}\n", `f:2:23: metrics.web_config: "web.yaml" is not an absolute path; write one such as /etc/warproute-web.yaml`},
		{"web configuration of a Unix socket", onePort + "metrics: {listen: \"unix:/run/m.sock\", web_config: /etc/w.yaml}\n", "f:2:51: metrics.web_config: is for TCP, and metrics.listen is a Unix socket, which its mode protects; remove one of the two"},
		{"status page without a port", onePort + "status: {listen: 127.0.0.1}\n", `f:2:18: status.listen: "127.0.0.1" is not an address and a port; write one such as "127.0.0.1:9274" or "[::1]:9274", or "" to disable the status page`},
		{"listen on port 70000", onePort + "metrics: {listen: \":70000\"}\n", `f:2:19: metrics.listen: ":70000" is not an address and a port; write one such as "127.0.0.1:9273" or "[::1]:9273", or "" to disable metrics`},
		{"relative socket path", onePort + "control: {socket: w.sock}\n", `f:2:19: control.socket: "w.sock" is not the absolute path of a file; write one such as /run/warproute/control.sock`},
		{"socket path too long", onePort + "control: {socket: /" + strings.Repeat("a", 107) + "}\n", "f:2:19: control.socket: path of 108 bytes exceeds the limit of 107; choose a shorter path"},
		{"not YAML", onePort + "batch: {max_packets: 1\n", "f:2:8: invalid YAML: could not find flow mapping end token '}'; check the indentation, colons and quotes here"},
		{"tab as indentation", "ports:\n\t- interface: lan0\n", "f:2:1: invalid YAML: found character '\t' that cannot start any token; check the indentation, colons and quotes here"},
		{"two documents", onePort + "---\nengine: cpu\n", "f:3:1: second YAML document; keep one, and remove the line `---` before it"},
		{"all mistakes in the order of the file", "enigne: cpu\nports:\n  - interface: lan0\n  - interface: lan0\n    mode: fast\nworkers: x\n",
			"f:1:1: unknown key \"enigne\"; did you mean \"engine\"?\n" +
				"f:4:16: interface \"lan0\" is already a port in line 3; remove one of the two\n" +
				"f:5:11: ports[1].mode: unknown value \"fast\"; write auto, zero-copy, native or generic\n" +
				"f:6:10: workers must be an integer, not the string \"x\"; write an integer such as 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("f", []byte(tt.text))
			checkError(t, err, tt.want)
		})
	}
}

func TestParseRejectsDeepNesting(t *testing.T) {
	for _, open := range []string{"[", "{a: ", "- ", "? ", "[\n", "{a:\n"} {
		for _, times := range []int{maxNesting, maxLine / len(open), 100_000} {
			if _, err := Parse("f", []byte(strings.Repeat(open, times))); err == nil {
				t.Errorf("%q %d times was accepted", open, times)
			}
		}
	}
}

func TestCheckReportsMistakesAfterChanges(t *testing.T) {
	if err := Default("lan0", "wan0").Check(); err != nil {
		t.Fatalf("two ports without a file: %v", err)
	}
	c := Default("lan0", "lan0")
	c.Engine = "fpga"
	want := "interface \"lan0\" is already a port; remove one of the two\nengine: unknown value \"fpga\"; write auto, cpu or gpu"
	if err := c.Check(); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestLoadErrorsNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.yaml")
	if _, err := Load(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("a missing file: %v", err)
	}
	require.NoError(t, os.WriteFile(path, []byte("ports: 1\n"), 0o600))
	if _, err := Load(path); err == nil || !strings.HasPrefix(err.Error(), path+":1:8: ") {
		t.Errorf("a wrong file: %v", err)
	}
	require.NoError(t, os.Truncate(path, maxFileSize+1))
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "bytes exceed the limit of") {
		t.Errorf("a file that is too large: %v", err)
	}
}

// A reload reads the file again: a pipe would be empty, or block.
func TestLoadRejectsPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	refused := make(chan error, 1)
	go func() { _, err := Load(path); refused <- err }()
	select {
	case err := <-refused:
		want := "read configuration: " + path + " is a pipe, not a regular file; write it to a regular file, which reload can read again"
		if err == nil || err.Error() != want {
			t.Errorf("got\n%v\nwant\n%s", err, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Load blocks on a pipe")
	}
}

func TestSampleConfigurationsLoad(t *testing.T) {
	files, _ := filepath.Glob("../../configs/*.yaml")
	if len(files) < 2 {
		t.Fatalf("found %q, want two-port.yaml and full.yaml at least", files)
	}
	for _, f := range files {
		if _, err := Load(f); err != nil {
			t.Error(err)
		}
	}
}

// full.yaml documents every key with its default.
func TestFullSampleEqualsDefault(t *testing.T) {
	got, err := Load("../../configs/full.yaml")
	require.NoError(t, err)
	if diff := cmp.Diff(Default("lan0", "wan0"), got, values); diff != "" {
		t.Errorf("configs/full.yaml differs from the defaults (-default +file):\n%s", diff)
	}
}

// FuzzParse checks that an accepted file passes Check and has ports, and that each error has a file,
// a message and a hint, and reveals no key.
func FuzzParse(f *testing.F) {
	f.Add([]byte(onePort))
	f.Add([]byte("ports:\n  - {interface: lan0, mode: native}\nbatch: {max_delay: 1ms}\n"))
	f.Add([]byte("a: &b [*b]\n<<: {c: !!int 1}\n? [x]\n: |\n  y\n"))
	f.Add([]byte(tunnel))
	f.Add([]byte(onePort + "ipsec:\n  source: xfrm\n  sas: [{spi: -1, encap: {sport: 0}, lifetime: {soft: {bytes: 1e9}}, key: 0b1, auth_key_file: /}]\n  policies: [{protocol: 256, sport: 2-1}]\n"))
	for _, name := range []string{"full", "two-port"} {
		data, err := os.ReadFile("../../configs/" + name + ".yaml")
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data)
		if err == nil {
			if len(c.Ports) == 0 || c.Check() != nil {
				t.Fatalf("accepted %+v, but Check returns %v", c, c.Check())
			}
			return
		}
		var errs Errors
		if !errors.As(err, &errs) || len(errs) == 0 {
			t.Fatalf("%T is not Errors", err)
		}
		for _, e := range errs {
			if e.File != "f" || e.Msg == "" || e.Hint == "" || likeKey.MatchString(e.Error()) {
				t.Errorf("wrong error %+v", e)
			}
		}
	})
}
