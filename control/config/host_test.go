package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/require"
)

var host = []netdev.Device{{Name: "lo", Loopback: true, Up: true}, {Name: "enp1s0", Up: true}, {Name: "enp2s0"}}

func TestWebConfigurationIsChecked(t *testing.T) {
	c := Default("lan0")
	for text, want := range map[string]string{
		"": "", // neither TLS nor passwords
		"basic_auth_users: {prometheus: plaintext}\n":                             "hashedSecret too short",
		"tls_server_config: {cert_file: /none/cert.pem, key_file: /none/k.pem}\n": "/none/cert.pem",
	} {
		c.Metrics.WebConfig = filepath.Join(t.TempDir(), "web.yaml")
		require.NoError(t, os.WriteFile(c.Metrics.WebConfig, []byte(text), 0o600))
		err := c.checkWebFile().orNil()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "metrics.web_config")) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	c.Metrics.WebConfig = "/none/web.yaml"
	if err := c.checkWebFile().orNil(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

func TestMissingInterfacesAreReported(t *testing.T) {
	tests := []struct {
		name, port string
		have       []netdev.Device
		want       string
	}{
		{"interface that is down", "enp2s0", host, ""},
		{"misspelt interface", "emp1s0", host, `this host has no interface "emp1s0"; did you mean "enp1s0"?`},
		{"missing interface", "wan0", host, `this host has no interface "wan0"; choose one of enp1s0, enp2s0`},
		{"loopback", "lo", host, `"lo" is the loopback interface, which cannot be a port; choose one of enp1s0, enp2s0`},
		{"host with only loopback", "wan0", host[:1], `this host has no interface "wan0"; only loopback exists: create an interface, or move one into this network namespace`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := Default(tt.port).checkInterfaces(tt.have, nil).orNil(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestCheckHostReportsPositions(t *testing.T) {
	c, err := Parse("f", []byte("ports:\n  - interface: lo\n  - interface: no-such-port\ncontrol: {socket: /no-such-dir/w}\nworkers: 2\n"))
	require.NoError(t, err)
	err = CheckHost(c)
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{
		`f:2:16: "lo" is the loopback interface`,
		`f:3:16: this host has no interface "no-such-port"`,
		`f:4:19: control.socket: directory /no-such-dir does not exist; create it, or choose another path`,
		`f:5:10: workers: 2 exceeds the number of queues of lo (1)`,
	}
	if len(lines) != len(want) {
		t.Fatalf("got\n%s", err)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("line %d is %q, want prefix %q", i, lines[i], want[i])
		}
	}
}

func TestCheckHostChecksValuesFirst(t *testing.T) {
	if err := CheckHost(Default("lan0", "lan0")); err == nil || !strings.Contains(err.Error(), "already a port") {
		t.Errorf("got %v", err)
	}
}

func TestStateNeedsADirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
	for _, tt := range []struct{ name, state, direction, want string }{
		{"existing directory", dir, "out", ""},
		{"directory that the router creates", dir + "/new", "out", ""},
		{"missing parent directory", dir + "/no/new", "out", "f:3:10: ipsec.state: directory " + dir + "/no does not exist; create it, or choose another path for stored sequence numbers"},
		{"a file", dir + "/file", "out", "f:3:10: ipsec.state: " + dir + "/file is not a directory; choose another path for stored sequence numbers"},
		{"no outbound SA", dir + "/no/new", "in", ""},
	} {
		c, err := Parse("f", []byte(onePort+"ipsec:\n  state: "+tt.state+"\n  sas:\n    - {name: a, spi: 256, direction: "+tt.direction+
			", src: 192.0.2.1, dst: 192.0.2.2, suite: null-sha256, auth_key: "+keyC+"}\n"))
		require.NoError(t, err)
		got := ""
		if err := c.checkState().orNil(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

func TestForwardingByLinuxIsReported(t *testing.T) {
	const (
		sas      = "  sas:\n    - {name: a, spi: 256, direction: in, src: 192.0.2.2, dst: 192.0.2.1, suite: null-sha256, auth_key: " + keyC + "}\n"
		policies = sas + "  policies:\n    - {direction: in, src: 0.0.0.0/0, dst: 0.0.0.0/0, action: protect, sa: a}\n"
		ipv4     = "net.ipv4.conf.lan0/7.forwarding"
		ipv6     = "net.ipv6.conf.all.forwarding"
		forced   = "net.ipv6.conf.lan0/7.force_forwarding"
	)
	for _, tt := range []struct {
		name, ipsec    string // with linux_forwarding: allow, or drop after the prefix "drop"
		others, v4, v6 string
		force          string // force_forwarding of the port
		want           []string
	}{
		{"off", policies, "1", "0", "0", "0", nil},
		{"IPv4", policies, "0", "1", "0", "0", []string{ipv4}},
		{"IPv6", policies, "0", "0", "1", "0", []string{ipv6}},
		{"IPv6 from the port", policies, "0", "0", "0", "1", []string{forced}},
		{"both", policies, "1", "1", "2", "0", []string{ipv6, ipv4}},
		{"Linux before 6.17", policies, "0", "0", "0", "", nil},
		{"Linux without IPv6", policies, "0", "0", "", "", nil},
		{"linux_forwarding: drop", "drop" + policies, "1", "1", "1", "1", nil},
		{"no policies", sas, "1", "1", "1", "1", nil},
		{"policies of Linux", "  source: xfrm\n", "1", "1", "1", "1", nil},
	} {
		dir := t.TempDir()
		for path, value := range map[string]string{
			"net/ipv4/conf/all/forwarding": tt.others, "net/ipv4/conf/lan0.7/forwarding": tt.v4,
			"net/ipv6/conf/all/forwarding": tt.v6, "net/ipv6/conf/lan0.7/force_forwarding": tt.force,
		} {
			if value == "" {
				continue
			}
			require.NoError(t, os.MkdirAll(filepath.Dir(dir+"/"+path), 0o700))
			require.NoError(t, os.WriteFile(dir+"/"+path, []byte(value+"\n"), 0o600))
		}
		choice := "allow"
		if ipsec, ok := strings.CutPrefix(tt.ipsec, "drop"); ok {
			choice, tt.ipsec = "drop", ipsec
		}
		c, err := Parse("f", []byte("ports: [{interface: lan0.7}]\nipsec:\n  linux_forwarding: "+choice+"\n"+tt.ipsec))
		require.NoError(t, err)
		errs := c.checkForwarding(dir)
		if len(errs) != len(tt.want) {
			t.Errorf("%s: %v", tt.name, errs)
			continue
		}
		for i, name := range tt.want {
			if text := errs[i].Error(); !strings.Contains(text, "("+name+")") || !strings.HasSuffix(text, "sysctl -w "+name+"=0") {
				t.Errorf("%s: %s", tt.name, text)
			}
		}
	}
}

// A running port whose interface is missing does not fail a reload.
func TestCheckHostSkipsMissingRunningPorts(t *testing.T) {
	c := Default("no-such-port", "nor-this")
	c.Control.Socket = t.TempDir() + "/w.sock"
	err := CheckHost(c, c.Ports[0])
	if err == nil || strings.Contains(err.Error(), "no-such-port") || !strings.Contains(err.Error(), "nor-this") {
		t.Errorf("got %v", err)
	}
}

// A gateway is guarded at boot although key files are missing or other values are invalid.
func TestGuardedPortsIgnoreOtherMistakes(t *testing.T) {
	const ports, policy = "ports: [{interface: lan0}, {interface: wan0}]\n", "policies: [{direction: out, src: 10.7.0.0/16, dst: 10.8.0.0/16, action: protect, sa: a}]"
	both := []string{"lan0", "wan0"}
	for _, tt := range []struct {
		text string
		want []string
		err  string
	}{
		{ports, nil, ""},
		{ports + "ipsec: {source: xfrm}", both, ""},
		{ports + "ipsec: {source: xfrm, linux_forwarding: allow}", nil, ""},
		{ports + "ipsec: {" + policy + ", sas: [{name: a, key_file: gone}]}", both, ""},
		{ports + "engine: nonsense\nipsec: {" + policy + ", unknown: 1}", both, ""},
		{"ports: [\"none?\"]\nipsec: {source: xfrm}", []string{}, ""}, // a gateway whose interfaces do not exist yet
		{"ipsec: [", nil, "f.yaml"},
	} {
		path := filepath.Join(t.TempDir(), "f.yaml")
		require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o600))
		got, gateway, err := GuardedPorts(path)
		if !slices.Equal(got, tt.want) || gateway != (tt.want != nil) || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: %q, %v", tt.text, got, err)
		}
	}
	if _, _, err := GuardedPorts("/no/such/file"); err == nil {
		t.Error("no error without a file")
	}
}

// TestDefaultSocketNeedsNoDirectory: the router creates the directory of the default control socket.
func TestDefaultSocketNeedsNoDirectory(t *testing.T) {
	if err := CheckHost(Default("no-such-port")); err == nil || strings.Contains(err.Error(), "control.socket") {
		t.Errorf("got %v, want nothing but the missing port", err)
	}
}
