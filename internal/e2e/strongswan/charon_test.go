package strongswan

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// gateway is one end of the tunnel, with a key daemon.
type gateway struct {
	*lab.Namespace
	t             *testing.T
	dir           string
	outer, remote string
}

// startCharon starts the key daemon, with a tmpfs for its fixed pid file in /run. Trap policies keep
// packets from leaving in plaintext without a tunnel.
func (g *gateway) startCharon(local, remote, limits string) {
	g.startDaemon("install_routes = no\n\tdelete_rekeyed_delay = 1")
	g.write("swanctl.conf", fmt.Sprintf(`
connections { peer {
	local_addrs = %v
	remote_addrs = %v
	proposals = aes128-sha256-ecp256
	local { auth = psk }
	remote { auth = psk }
	children { net {
		start_action = trap
		local_ts = %s
		remote_ts = %s
		esp_proposals = aes128gcm16-ecp256-esn
		%s
	} }
} }
secrets { ike { secret = "the quick brown fox" } }
`, g.outer, g.remote, local, remote, limits))
}

// startDaemon starts the key daemon with its default settings and more.
func (g *gateway) startDaemon(settings string) {
	vici := filepath.Join(g.dir, "vici")
	g.write("strongswan.conf", `
charon {
	load = openssl random nonce hmac kdf socket-default kernel-netlink vici
	`+settings+`
	filelog { stderr { default = 0 } }
	plugins { vici { socket = unix://`+vici+` } }
}
`)
	cmd := exec.Command("sh", "-c", "mount -t tmpfs tmpfs /run && exec /usr/lib/ipsec/charon")
	cmd.Env = append(os.Environ(), "STRONGSWAN_CONF="+filepath.Join(g.dir, "strongswan.conf"))
	cmd.Stderr = os.Stderr
	p, err := g.Start(cmd)
	require.NoError(g.t, err)
	g.t.Cleanup(func() { p.Stop(5 * time.Second) })
	labtest.Eventually(g.t, 15*time.Second, "charon serves (Debian packages strongswan-charon and libstrongswan-standard-plugins)", func() bool {
		_, err := os.Stat(vici)
		return err == nil
	})
}

// load replaces the key daemon's configuration by a file; "" removes it.
func (g *gateway) load(name string) {
	g.t.Helper()
	if name == "" {
		name = "empty.conf"
		g.write(name, "connections {}\n")
	}
	g.swanctl("--load-all", "--file", filepath.Join(g.dir, name))
}

func (g *gateway) write(name, text string) {
	g.t.Helper()
	require.NoError(g.t, os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o600))
}

func (g *gateway) swanctl(command string, args ...string) string {
	g.t.Helper()
	args = append([]string{"SWANCTL_DIR=" + g.dir, "swanctl", command, "--uri", "unix://" + filepath.Join(g.dir, "vici")}, args...)
	return labtest.Run(g.t, g.Namespace, "env", args...)
}
