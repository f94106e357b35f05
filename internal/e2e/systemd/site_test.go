package systemd

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/document"
	"github.com/warproute/warproute/internal/require"
)

const howtos = "../../../docs/howto"

// site is the hosts of how-tos.
type site struct {
	t        *testing.T
	machines map[string]*machine
}

// newSite builds a network in which some hosts run systemd. The others are only namespaces.
func newSite(t *testing.T, network string, systemd ...string) *site {
	t.Helper()
	installShims(t)
	made, err := lab.Build(lab.VethOptions{}, network)
	require.NoError(t, err)
	t.Cleanup(made.Close)
	s := &site{t, map[string]*machine{}}
	for name, ns := range made {
		if !slices.Contains(systemd, name) {
			s.machines[name] = &machine{t: t, ns: ns}
		}
	}
	for _, name := range systemd {
		s.machines[name] = startMachine(t, made[name])
	}
	return s
}

// shims stand for commands that the guest lacks: it has neither users nor packages of a network. As Debian does, apt
// starts a service that it installs.
var shims = map[string]string{
	"sudo": `exec "$@"`,
	"apt": `set -e
verb=$1
shift
for p; do
	case $verb,$p in
	*,-*) ;;
	install,./*) dpkg --install "$p" ;;
	install,*)
		dpkg-query --show "$p" >/dev/null
		unit=$(dpkg-query --listfiles "$p" | sed -n 's|.*/systemd/system/\([^@/]*\.service\)$|\1|p' | head -n 1)
		[ -z "$unit" ] || systemctl start "$unit"
		;;
	purge,warproute) dpkg --purge "$p" ;;
	purge,*) dpkg-query --show "$p" >/dev/null ;;
	*) exit 1 ;;
	esac
done`,
}

func installShims(t *testing.T) {
	t.Helper()
	for name, script := range shims {
		require.NoError(t, os.WriteFile(filepath.Join("/usr/local/bin", name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
}

// follow does the steps of a how-to from a section to another one.
func (s *site) follow(name, from, to string) {
	s.t.Helper()
	hosts := map[string]document.Host{}
	for name, m := range s.machines {
		hosts[name] = m
	}
	document.Follow(s.t, filepath.Join(howtos, name), from, to, hosts)
}

// bridge makes a namespace a switch between its links.
func (s *site) bridge(name string, links ...string) {
	s.t.Helper()
	s.sh(name, "ip link add br0 type bridge mcast_snooping 0; ip link set br0 up")
	for _, link := range links {
		s.sh(name, "ip link set "+link+" master br0")
	}
}

// sh runs a script on a host.
func (s *site) sh(host, script string) {
	s.t.Helper()
	if out, err := s.machines[host].Run(script); err != nil {
		s.t.Fatalf("%s: %s: %v: %s", host, script, err, out)
	}
}

// copyPackage copies the package of a version to the home directory of root.
func (s *site) copyPackage(version string, hosts ...string) {
	s.t.Helper()
	for _, host := range hosts {
		s.sh(host, "cp "+deb(s.t, version)+" /root")
	}
}
