package xfrm

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// end is one of the two hosts.
type end struct {
	*lab.Namespace
	t             *testing.T
	dir           string
	outer, remote netip.Addr
	inner, beyond netip.Addr
}

func newEnd(t *testing.T, name string, outer, remote, inner, beyond netip.Addr) *end {
	ns, err := lab.New(name)
	require.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	return &end{ns, t, t.TempDir(), outer, remote, inner, beyond}
}

func (e *end) must(err error) {
	e.t.Helper()
	require.NoError(e.t, err)
}

// startCharon starts the key daemon with its own /run, because the path of its pid file is fixed.
func (e *end) startCharon(limits string) {
	e.write("strongswan.conf", `
charon {
	load = openssl random nonce hmac kdf socket-default kernel-netlink vici
	install_routes = no
	delete_rekeyed_delay = 1
	filelog { stderr { default = 0 } }
	plugins { vici { socket = `+e.socket()+` } }
}
`)
	e.write("swanctl.conf", fmt.Sprintf(`
connections { peer {
	local_addrs = %v
	remote_addrs = %v
	proposals = aes128-sha256-ecp256
	local { auth = psk }
	remote { auth = psk }
	children { net {
		local_ts = %v
		remote_ts = %v
		esp_proposals = aes128gcm16-ecp256-esn
		%s
		replay_window = 128
	} }
} }
secrets { ike { secret = "the quick brown fox" } }
`, e.outer, e.remote, netip.PrefixFrom(e.inner, 24).Masked(), netip.PrefixFrom(e.beyond, 24).Masked(), limits))
	cmd := exec.Command("sh", "-c", "mount -t tmpfs tmpfs /run && exec /usr/lib/ipsec/charon")
	cmd.Env = append(os.Environ(), "STRONGSWAN_CONF="+filepath.Join(e.dir, "strongswan.conf"))
	cmd.Stderr = os.Stderr
	p, err := e.Start(cmd)
	e.must(err)
	e.t.Cleanup(func() { p.Stop(5 * time.Second) })
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(strings.TrimPrefix(e.socket(), "unix://")); err == nil {
			return
		}
		if time.Now().After(end) {
			e.t.Fatal("charon does not come up (are strongswan-charon and libstrongswan-standard-plugins installed?)")
		}
	}
}

func (e *end) socket() string { return "unix://" + filepath.Join(e.dir, "vici") }

func (e *end) write(name, text string) {
	e.must(os.WriteFile(filepath.Join(e.dir, name), []byte(text), 0o600))
}

func (e *end) swanctl(command string, args ...string) string {
	e.t.Helper()
	args = append([]string{"SWANCTL_DIR=" + e.dir, "swanctl", command, "--uri", e.socket()}, args...)
	out, err := e.Run("env", args...)
	e.must(err)
	return out
}
