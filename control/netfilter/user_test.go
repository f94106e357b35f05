package netfilter

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// asUser is set in the process of another user.
const asUser = "WARPROUTE_TEST_AS_USER"

// Linux shows the names of iptables-legacy's tables only to root. A user with the capabilities of a router lists the rules by the
// names that root has kept or systemd has read, and else gets an error.
func TestForwardingListsTablesOfLegacyToOtherUsers(t *testing.T) {
	if os.Getenv(asUser) != "" {
		chains, err := Forwarding()
		fmt.Printf("uid %d: %v, %v\n", os.Getuid(), chains, err)
		return
	}
	ns, err := lab.New("firewall")
	require.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	for _, args := range [][]string{{"iptables-legacy", "-A", "FORWARD", "-j", "DROP"}, {"ip6tables-legacy", "-P", "FORWARD", "DROP"}} {
		_, err := ns.Run(args[0], args[1:]...)
		require.NoError(t, err)
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // of all directories of the test
	program, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	test := filepath.Join(dir, "netfilter.test")
	require.NoError(t, os.WriteFile(test, program, 0o755))
	t.Setenv(asUser, "1")
	for i := range legacyFamilies { // so that the values are restored
		t.Setenv(legacyFamilies[i].variable(), "")
		require.NoError(t, os.Unsetenv(legacyFamilies[i].variable()))
	}
	forwarding := func() string {
		t.Helper()
		out, err := ns.Run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+net_admin,+net_raw", "--ambient-caps=+net_admin,+net_raw", test, "-test.run=^"+t.Name()+"$")
		require.NoError(t, err)
		return out
	}
	const rules = "uid 65534: [iptables filter FORWARD (rules) ip6tables filter FORWARD (policy drop)], <nil>"
	if out := forwarding(); !strings.Contains(out, "uid 65534: []") || !strings.Contains(out, "ip_tables_names: permission denied") {
		t.Errorf("without names: %s", out)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	for name, text := range map[string]string{"ip_tables_names": "filter\n", "ip6_tables_names": "filter\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	if out := forwarding(); !strings.Contains(out, rules) {
		t.Errorf("with names of systemd: %s", out)
	}
	require.NoError(t, os.Unsetenv("CREDENTIALS_DIRECTORY"))
	require.NoError(t, ns.Do(func() error { KeepNames(); return nil }))
	if out := forwarding(); !strings.Contains(out, rules) {
		t.Errorf("with names that root has kept: %s", out)
	}
}
