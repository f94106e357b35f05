package netfilter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// legacyFamily is one of the two kinds of tables that iptables-legacy writes to.
type legacyFamily struct {
	command  string // "iptables"
	loaded   string // file with the names of the tables that there are in the namespace
	domain   int    // of sockets
	level    int    // of socket options
	targetAt int    // where in an entry it is said where its target begins (struct ipt_entry, ip6t_entry)
}

var legacyFamilies = []legacyFamily{
	{"iptables", "/proc/thread-self/net/ip_tables_names", unix.AF_INET, unix.IPPROTO_IP, 88},
	{"ip6tables", "/proc/thread-self/net/ip6_tables_names", unix.AF_INET6, unix.IPPROTO_IPV6, 140},
}

// legacyHooks are the numbers of the hooks on the way of forwarded packets. Their chains have
// the names in capitals.
var legacyHooks = map[int]string{0: "prerouting", 2: "forward", 4: "postrouting"}

// chains returns those of all tables that are loaded: to ask for another would load it.
func (f *legacyFamily) chains() (all []Chain, err error) {
	names, err := os.ReadFile(f.loaded)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || len(names) == 0 {
		return nil, err
	}
	fd, err := unix.Socket(f.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, fmt.Errorf("open a socket to read %s: %w", f.command, err)
	}
	defer unix.Close(fd)
	for _, name := range strings.Fields(string(names)) {
		if name == "security" {
			continue // labels, filters nothing
		}
		var info tableInfo
		copy(info.Name[:], name)
		if err := getsockopt(fd, f.level, getInfo, bytesOf(&info)); err != nil {
			return all, fmt.Errorf("read the table %s of %s: %w", name, f.command, err)
		}
		entries := entriesRequest(&info)
		if err := getsockopt(fd, f.level, getEntries, entries); err != nil {
			return all, fmt.Errorf("read the rules of table %s of %s: %w", name, f.command, err)
		}
		all = append(all, f.chainsOf(name, &info, entries[entriesAt:])...)
	}
	return all, nil
}

// chainsOf tells which chains have something in front of their policy, and what that is.
func (f *legacyFamily) chainsOf(table string, info *tableInfo, entries []byte) (all []Chain) {
	for hook := range info.Entry {
		name := legacyHooks[hook]
		if name == "" || info.ValidHooks>>hook&1 == 0 {
			continue
		}
		c := Chain{Table: f.command + " " + table, Hook: name, Name: strings.ToUpper(name)}
		if info.Entry[hook] != info.Underflow[hook] {
			c.Rules = -1
		}
		c.Drops = f.drops(entries, int(info.Underflow[hook]))
		all = append(all, c)
	}
	return all
}

// drops reports whether the entry at a place, a policy, drops: its target is then a verdict
// of -NF_DROP - 1.
func (f *legacyFamily) drops(entries []byte, at int) bool {
	const verdictAt = 32 // behind struct xt_entry_target
	if at < 0 || at+f.targetAt+2 > len(entries) {
		return false
	}
	target := at + int(binary.NativeEndian.Uint16(entries[at+f.targetAt:])) + verdictAt
	return target+4 <= len(entries) && int32(binary.NativeEndian.Uint32(entries[target:])) == -1
}

// entriesRequest makes room for the rules of a table (struct ipt_get_entries).
func entriesRequest(info *tableInfo) []byte {
	b := make([]byte, entriesAt+int(info.Size))
	copy(b, info.Name[:])
	binary.NativeEndian.PutUint32(b[len(info.Name):], info.Size)
	return b
}
