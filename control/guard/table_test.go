package guard

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

func newNamespace(t *testing.T) *lab.Namespace {
	t.Helper()
	ns, err := lab.New("guard")
	require.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	return ns
}

func openTable(t *testing.T, ns *lab.Namespace) (table *Table) {
	t.Helper()
	require.NoError(t, ns.Do(func() (err error) { table, err = Open(); return err }))
	t.Cleanup(func() { table.Close() })
	return table
}

func run(t *testing.T, ns *lab.Namespace, command string) string {
	t.Helper()
	words := strings.Fields(command)
	out, err := ns.Run(words[0], words[1:]...)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return out
}

func expectGuarded(t *testing.T, table *Table, want ...string) {
	t.Helper()
	if got, err := table.Guarded(); err != nil || !slices.Equal(got, want) {
		t.Errorf("guarded interfaces %q, %v, want %q", got, err, want)
	}
}

func guard(t *testing.T, table *Table, changes bool, names ...string) {
	t.Helper()
	if changed, err := table.Guard(names...); err != nil || changed != changes {
		t.Errorf("guard %q: changed %v, %v, want %v", names, changed, err, changes)
	}
}

func TestTableListsAsDocumented(t *testing.T) {
	ns := newNamespace(t)
	table := openTable(t, ns)
	expectGuarded(t, table)
	guard(t, table, true, "lan0", "wan0")
	const want = `table inet warproute {
	set ports {
		type ifname
		elements = { "lan0",
			     "wan0" }
	}

	chain forward {
		type filter hook forward priority -450; policy accept;
		iifname @ports counter packets 0 bytes 0 drop
		oifname @ports counter packets 0 bytes 0 drop
	}

	chain input {
		type filter hook input priority -450; policy accept;
		iifname @ports meta l4proto esp counter packets 0 bytes 0 drop
		iifname @ports udp dport 4500 @th,64,32 != 0x0 counter packets 0 bytes 0 drop
	}

	chain postrouting {
		type filter hook postrouting priority 300; policy accept;
		oifname @ports rt ipsec exists counter packets 0 bytes 0 drop
	}
}
`
	got := run(t, ns, "nft list table inet warproute")
	strip := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if strip(got) != strip(want) {
		t.Errorf("nft lists\n%s", got)
	}
}

func TestTableAddsAndReleasesInterfaces(t *testing.T) {
	ns := newNamespace(t)
	table := openTable(t, ns)
	if err := table.Release("lan0"); err != nil {
		t.Errorf("release without a table: %v", err)
	}
	guard(t, table, true, "lan0", "wan0")
	guard(t, table, false, "wan0")
	guard(t, table, true, "lan0", "dmz0") // dmz0: port of another router
	expectGuarded(t, table, "dmz0", "lan0", "wan0")
	require.NoError(t, table.Release("dmz0", "other"))
	expectGuarded(t, table, "lan0", "wan0")
	require.NoError(t, table.Release("lan0", "wan0"))
	expectGuarded(t, table)
	if got := run(t, ns, "nft list ruleset"); got != "" {
		t.Errorf("after Release of all interfaces, nft lists\n%s", got)
	}
}

func TestTableIsRestored(t *testing.T) {
	for _, damage := range []string{
		"nft flush ruleset", "nft delete table inet warproute", "nft flush table inet warproute", "nft flush chain inet warproute forward", "nft flush chain inet warproute postrouting",
		"nft flush set inet warproute ports", "nft delete element inet warproute ports { lan0 }", "nft add table inet warproute { flags dormant; }",
	} {
		t.Run(damage, func(t *testing.T) {
			ns := newNamespace(t)
			table := openTable(t, ns)
			guard(t, table, true, "lan0", "wan0")
			whole := run(t, ns, "nft list table inet warproute")
			words := strings.Fields(damage)
			if name, block, ok := strings.Cut(damage, " {"); ok {
				words = append(strings.Fields(name), "{"+block)
			}
			if out, err := ns.Run(words[0], words[1:]...); err != nil {
				t.Fatal(err, out)
			}
			guard(t, table, true, "lan0", "wan0")
			guard(t, table, false, "lan0", "wan0")
			if got := run(t, ns, "nft list table inet warproute"); got != whole {
				t.Errorf("restored to\n%s", got)
			}
		})
	}
}

// TestKernelWithoutXFRMGetsTheOtherRules has an expression that no kernel has in place of the rule that needs XFRM.
func TestKernelWithoutXFRMGetsTheOtherRules(t *testing.T) {
	ns := newNamespace(t)
	table := openTable(t, ns)
	unknown := expression("rt", number(unix.NFTA_RT_DREG, unix.NFT_REG_1), number(unix.NFTA_RT_KEY, 99))
	table.rules = append(slices.DeleteFunc(slices.Clone(allRules), needsXFRM), rule{chain: "postrouting", expressions: drop(unknown), xfrm: true})
	guard(t, table, true, "lan0")
	guard(t, table, false, "lan0")
	if got := run(t, ns, "nft list table inet warproute"); strings.Count(got, "counter") != len(allRules)-1 {
		t.Errorf("nft lists\n%s", got)
	}
}

// TestTableOfANewerVersionStays: during an upgrade, two versions watch the table.
func TestTableOfANewerVersionStays(t *testing.T) {
	ns := newNamespace(t)
	older, newer := openTable(t, ns), openTable(t, ns)
	older.rules = allRules[:len(allRules)-1]
	guard(t, older, true, "lan0")
	guard(t, newer, true, "lan0")
	guard(t, older, false, "lan0")
	guard(t, newer, false, "lan0")
}

func TestTablesBelongToNamespaces(t *testing.T) {
	a, b := openTable(t, newNamespace(t)), openTable(t, newNamespace(t))
	guard(t, a, true, "lan0")
	expectGuarded(t, a, "lan0")
	expectGuarded(t, b)
}
