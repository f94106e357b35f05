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
)

var values = cmp.Options{cmpopts.IgnoreUnexported(Config{}), cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})}

func TestOnlyPortsAreRequired(t *testing.T) {
	got, err := Parse("f.yaml", []byte("ports:\n  - interface: lan0\n  - interface: wan0\n"))
	if err != nil {
		t.Fatal(err)
	}
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
shadow: 7
workers: 3
batch: {max_packets: 1, max_delay: 1ms}
metrics: {listen: ""}
control: {socket: /tmp/w.sock}
napi: interrupt
busy_poll: 20us
checksum: repair
icmp: {per_second: 0, burst: 1, source_per_second: 2, source_burst: 3}
ipsec: {source: xfrm, state: /tmp/w, mss_clamp: true, fragment: after, icmp: strict, path_mtu: off, interface: ipsec0, linux_forwarding: allow}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Ports:    []Port{{"1e3", ModeZeroCopy, ReversePathOff}, {"wan0", ModeGeneric, ReversePathStrict}},
		Engine:   EngineCPU,
		Shadow:   7,
		Workers:  3,
		Batch:    Batch{MaxPackets: 1, MaxDelay: time.Millisecond},
		Control:  Control{Socket: "/tmp/w.sock"},
		NAPI:     NAPIInterrupt,
		BusyPoll: 20 * time.Microsecond,
		Checksum: ChecksumRepair,
		ICMP:     ICMP{0, 1, 2, 3},
		IPsec:    IPsec{Source: SourceXFRM, State: "/tmp/w", MSSClamp: true, Fragment: FragmentAfter, ICMP: ICMPStrict, PathMTU: PathMTUOff, Interface: "ipsec0", LinuxForwarding: LinuxForwardingAllow},
	}
	if diff := cmp.Diff(want, got, values); diff != "" {
		t.Error(diff)
	}
}

// Some editors begin a file with a byte order mark, and Linux takes any letters in names.
func TestTextBeyondASCII(t *testing.T) {
	c, err := Parse("f.yaml", []byte("\ufeffports:\n  - interface: büro0\n"))
	if err != nil || c.Ports[0].Interface != "büro0" {
		t.Errorf("got %+v, %v", c, err)
	}
}

const onePort = "ports: [{interface: lan0}]\n"

func TestMistakes(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty file", "", "f:1:1: there are no ports; name the interfaces to route between, as `- interface: eth0` below `ports:` or by --port eth0"},
		{"empty list of ports", "engine: cpu\nports: []\n", "f:2:8: there are no ports; name the interfaces to route between, as `- interface: eth0` below `ports:` or by --port eth0"},
		{"unknown key near a known one", onePort + "enigne: cpu\n", `f:2:1: unknown key "enigne"; did you mean "engine"?`},
		{"unknown key near none", onePort + "vlans: {}\n", `f:2:1: unknown key "vlans"; the keys here are ports, engine, shadow, workers, batch, metrics, control, napi, busy_poll, checksum, icmp, ipsec`},
		{"unknown key inside", onePort + "batch:\n  max_packet: 5\n", `f:3:3: unknown key "max_packet" in batch; did you mean "max_packets"?`},
		{"a misspelt interface is not also a missing one", "ports:\n  - interfce: lan0\n", `f:2:5: unknown key "interfce" in ports[0]; did you mean "interface"?`},
		{"misspelt ports are not also missing", "port:\n  - interface: lan0\n", `f:1:1: unknown key "port"; did you mean "ports"?`},
		{"key given twice", onePort + "engine: cpu\nengine: gpu\n", `f:3:1: key "engine" is given twice, first in line 2; keep one of them`},
		{"text for a number", onePort + "workers: many\n", `f:2:10: workers must be a whole number, not the text "many"; write one, as in 0`},
		{"fraction for a whole number", onePort + "batch: {max_packets: 1.5}\n", `f:2:22: batch.max_packets must be a whole number, not the number 1.5; write one, as in 1024`},
		{"number beyond all bounds", onePort + "workers: 0xffffffffffffffff\n", `f:2:10: workers: 18446744073709551615 is not a number that fits here; write one such as 0`},
		{"number beyond what the parser knows", onePort + "workers: 99999999999999999999\n", `f:2:10: workers: 99999999999999999999 is not a number that fits here; write one such as 0`},
		{"name that nobody can read", "ports: [{interface: \"lan\\u200b0\"}]\n", "f:1:21: \"lan\\u200b0\" cannot be the name of an interface; write one that `ip link` shows"},
		{"number for text", "ports: [{interface: 5}]\n", `f:1:21: ports[0].interface must be text, not the number 5; put it in quotes if it is meant: "5"`},
		{"mapping for a list", "ports: {interface: lan0}\n", "f:1:9: ports must be a list, not a mapping; begin each of its entries with `- `"},
		{"text for a mapping", "ports:\n  - lan0\n", "f:2:5: ports[0] must be a mapping with the keys interface, queues, mode, reverse_path, not the text \"lan0\"; write `key: value` lines below it"},
		{"another's file", "root:x:0:0:root:/root:/bin/bash\nproxy:x:13:13:proxy:/bin:/usr/sbin/nologin\n", "f:1:1: the file must be a mapping with the keys ports, engine, shadow, workers, batch, metrics, control, napi, busy_poll, checksum, icmp, ipsec, not the text \"root:x:0:0:root:/root:/bin/bash proxy:x:\"; write `key: value` lines below it"},
		{"list for the file", "- a\n", "f:1:1: the file must be a mapping with the keys ports, engine, shadow, workers, batch, metrics, control, napi, busy_poll, checksum, icmp, ipsec, not a list; write `key: value` lines below it"},
		{"key without a value", onePort + "metrics:\n", "f:2:10: metrics has no value; give it one, or remove the line to have the default"},
		{"alias", "ports: [{interface: &a lan0}, {interface: *a}]\n", "f:1:43: ports[1].interface refers to an anchor; write the value itself; aliases are not read here"},
		{"port without an interface", "ports:\n  - mode: auto\n", "f:2:5: ports[0] has no interface; add `interface: NAME`, a name that `ip link` shows"},
		{"interface given twice", "ports:\n  - interface: lan0\n  - interface: wan0\n  - interface: lan0\n", `f:4:16: interface "lan0" is already a port in line 2; remove one of the two`},
		{"name too long for an interface", "ports: [{interface: sixteen-letters0}]\n", "f:1:21: \"sixteen-letters0\" cannot be the name of an interface; write one that `ip link` shows"},
		{"reverse path that does not exist", "ports: [{interface: lan0, reverse_path: tight}]\n", `f:1:41: ports[0].reverse_path: there is no "tight"; write auto, off, loose or strict`},
		{"mode that does not exist", "ports: [{interface: lan0, mode: fast}]\n", `f:1:33: ports[0].mode: there is no "fast"; write auto, zero-copy, native or generic`},
		{"queues by number", "ports: [{interface: lan0, queues: 4}]\n", `f:1:35: ports[0].queues must be a word, not the number 4; write all`},
		{"engine that does not exist", onePort + "engine: fpga\n", `f:2:9: engine: there is no "fpga"; write auto, cpu or gpu`},
		{"negative workers", onePort + "workers: -1\n", "f:2:10: workers: -1 is out of range; write 0 for one worker per queue, or a number up to 1024"},
		{"chunk of nothing", onePort + "batch: {max_packets: 0}\n", "f:2:22: batch.max_packets: 0 is out of range; write a number from 1 to 2048"},
		{"chunk too large", onePort + "batch: {max_packets: 2049}\n", "f:2:22: batch.max_packets: 2049 is out of range; write a number from 1 to 2048"},
		{"a burst of no errors", onePort + "icmp: {burst: 0}\n", "f:2:15: icmp.burst: 0 is out of range; write a number from 1 to 1000000"},
		{"a negative rate", onePort + "icmp: {source_per_second: -1}\n", "f:2:27: icmp.source_per_second: -1 is out of range; write a number from 0 to 1000000"},
		{"duration without a unit", onePort + "batch: {max_delay: 50}\n", `f:2:20: batch.max_delay: "50" is not a duration; write a number and its unit (ns, us, ms, s), as in 50us or 1ms`},
		{"two ways to receive", onePort + "napi: thread\nbusy_poll: 1us\n", "f:2:7: napi: thread and busy_poll: a worker that polls would keep the thread on its core from receiving; leave one of the two out"},
		{"negative number of chunks", onePort + "shadow: -1\n", "f:2:9: shadow: -1 is out of range; write 0 for no comparison, or a number up to 1073741824"},
		{"negative duration", onePort + "busy_poll: -1us\n", "f:2:12: busy_poll: -1µs is out of range; write a time from 0s to 10ms"},
		{"delay of a minute", onePort + "batch: {max_delay: 1m}\n", "f:2:20: batch.max_delay: 1m0s is out of range; write a time from 0s to 1s"},
		{"listen without a port", onePort + "metrics: {listen: 127.0.0.1}\n", `f:2:19: metrics.listen: "127.0.0.1" is not an address and a port; write one such as "127.0.0.1:9273" or "[::1]:9273", or "" for no metrics`},
		{"listen on port 70000", onePort + "metrics: {listen: \":70000\"}\n", `f:2:19: metrics.listen: ":70000" is not an address and a port; write one such as "127.0.0.1:9273" or "[::1]:9273", or "" for no metrics`},
		{"relative socket path", onePort + "control: {socket: w.sock}\n", `f:2:19: control.socket: "w.sock" is not the absolute path of a file; write one such as /run/warproute.sock`},
		{"socket path too long", onePort + "control: {socket: /" + strings.Repeat("a", 107) + "}\n", "f:2:19: control.socket: a path of 108 bytes, and the kernel takes 107; choose a shorter one"},
		{"not YAML", onePort + "batch: {max_packets: 1\n", "f:2:8: not YAML: could not find flow mapping end token '}'; check the indentation, colons and quotes here"},
		{"tab as indentation", "ports:\n\t- interface: lan0\n", "f:2:1: not YAML: found character '\t' that cannot start any token; check the indentation, colons and quotes here"},
		{"two documents", onePort + "---\nengine: cpu\n", "f:3:1: a second YAML document begins here; keep one, and remove the line `---` before it"},
		{"all mistakes of a file, in its order", "enigne: cpu\nports:\n  - interface: lan0\n  - interface: lan0\n    mode: fast\nworkers: x\n",
			"f:1:1: unknown key \"enigne\"; did you mean \"engine\"?\n" +
				"f:4:16: interface \"lan0\" is already a port in line 3; remove one of the two\n" +
				"f:5:11: ports[1].mode: there is no \"fast\"; write auto, zero-copy, native or generic\n" +
				"f:6:10: workers must be a whole number, not the text \"x\"; write one, as in 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Parse("f", []byte(tt.text))
			if err == nil {
				t.Fatalf("accepted as %+v, want error\n%s", c, tt.want)
			}
			if err.Error() != tt.want {
				t.Errorf("got\n%s\nwant\n%s", err, tt.want)
			}
			var e *Error
			if !errors.As(err, &e) || e.Mend == "" {
				t.Errorf("no *Error with a mend in %#v", err)
			}
		})
	}
}

func TestDeepNestingIsAnErrorNotACrash(t *testing.T) {
	for _, open := range []string{"[", "{a: ", "- ", "? ", "[\n", "{a:\n"} {
		for _, times := range []int{maxNesting, maxLine / len(open), 100_000} {
			if _, err := Parse("f", []byte(strings.Repeat(open, times))); err == nil {
				t.Errorf("%q %d times was accepted", open, times)
			}
		}
	}
}

func TestChangedConfigurationIsCheckedAgain(t *testing.T) {
	if err := Default("lan0", "wan0").Check(); err != nil {
		t.Fatalf("two ports and no file: %v", err)
	}
	c := Default("lan0", "lan0")
	c.Engine = "fpga"
	want := "interface \"lan0\" is already a port; remove one of the two\nengine: there is no \"fpga\"; write auto, cpu or gpu"
	if err := c.Check(); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.yaml")
	if _, err := Load(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte("ports: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.HasPrefix(err.Error(), path+":1:8: ") {
		t.Errorf("a wrong file: %v", err)
	}
	if err := os.Truncate(path, maxFileSize+1); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "more than a configuration can have") {
		t.Errorf("a file that is too large: %v", err)
	}
}

// A reload, too, reads it: there, a pipe would have nothing, or be waited for.
func TestAPipeIsNoConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 1)
	go func() { _, err := Load(path); refused <- err }()
	select {
	case err := <-refused:
		want := "read configuration: " + path + " is a pipe, and not a regular file; write it to a file, which reload reads again"
		if err == nil || err.Error() != want {
			t.Errorf("got\n%v\nwant\n%s", err, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it is waited for")
	}
}

func TestSamplesParse(t *testing.T) {
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

// full.yaml shows every key with its default, so it must be the default.
func TestFullSampleIsTheDefault(t *testing.T) {
	got, err := Load("../../configs/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default("lan0", "wan0"), got, values); diff != "" {
		t.Errorf("configs/full.yaml differs from the defaults (-default +file):\n%s", diff)
	}
}

// A file is either accepted, and then passes Check and has ports, or each of its
// mistakes has a place, a message and a mend, and nothing that may be a key.
func FuzzParse(f *testing.F) {
	f.Add([]byte(onePort))
	f.Add([]byte("ports:\n  - {interface: lan0, mode: native}\nbatch: {max_delay: 1ms}\n"))
	f.Add([]byte("a: &b [*b]\n<<: {c: !!int 1}\n? [x]\n: |\n  y\n"))
	f.Add([]byte(tunnel))
	f.Add([]byte(onePort + "ipsec:\n  source: xfrm\n  sas: [{spi: -1, encap: {sport: 0}, lifetime: {soft: {bytes: 1e9}}, key: 0b1, auth_key_file: /}]\n  policies: [{protocol: 256, sport: 2-1}]\n"))
	for _, name := range []string{"full", "two-port"} {
		data, err := os.ReadFile("../../configs/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data)
		if err == nil {
			if len(c.Ports) == 0 || c.Check() != nil {
				t.Fatalf("accepted %+v, of which Check says %v", c, c.Check())
			}
			return
		}
		var errs Errors
		if !errors.As(err, &errs) || len(errs) == 0 {
			t.Fatalf("%T is not Errors", err)
		}
		for _, e := range errs {
			if e.File != "f" || e.Msg == "" || e.Mend == "" || likeKey.MatchString(e.Error()) {
				t.Errorf("wrong error %+v", e)
			}
		}
	})
}
