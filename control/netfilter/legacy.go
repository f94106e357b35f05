package netfilter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// legacyFamily describes the tables of iptables-legacy or ip6tables-legacy.
type legacyFamily struct {
	command      string // "iptables"
	names        string // file in /proc/net with the names of the loaded tables
	domain       int    // socket domain
	level        int    // socket option level
	targetOffset int    // offset of target_offset in struct ipt_entry or ip6t_entry, in bytes
}

var legacyFamilies = []legacyFamily{
	{"iptables", "ip_tables_names", unix.AF_INET, unix.IPPROTO_IP, 88},
	{"ip6tables", "ip6_tables_names", unix.AF_INET6, unix.IPPROTO_IPV6, 140},
}

// legacyHooks names the hooks of forwarded packets, by number. Chains have the upper-case name.
var legacyHooks = map[int]string{0: "prerouting", 2: "forward", 4: "postrouting"}

// chains returns the chains of all loaded tables. Reading another table would load its module.
func (f *legacyFamily) chains() (all []Chain, err error) {
	names, err := f.loaded()
	if err != nil || len(names) == 0 {
		return nil, err
	}
	fd, err := unix.Socket(f.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, fmt.Errorf("open a socket to read %s: %w", f.command, err)
	}
	defer unix.Close(fd)
	for _, name := range names {
		if name == "security" {
			continue // labels packets, filters none
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
		all = append(all, f.chainsOf(name, &info, entries[entriesOffset:])...)
	}
	return all, nil
}

// loaded returns the names of the loaded tables. The kernel shows them only to root; other users get those that were kept.
func (f *legacyFamily) loaded() ([]string, error) {
	names, err := os.ReadFile("/proc/thread-self/net/" + f.names)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		if kept, ok := f.kept(); ok {
			return strings.Fields(kept), nil
		}
	}
	return strings.Fields(string(names)), err
}

// kept returns the names of KeepNames, or those that systemd has read for the unit (LoadCredential=).
func (f *legacyFamily) kept() (names string, ok bool) {
	if names, ok = os.LookupEnv(f.variable()); ok {
		return names, true
	}
	dir, ok := os.LookupEnv("CREDENTIALS_DIRECTORY")
	if !ok {
		return "", false
	}
	credential, err := os.ReadFile(filepath.Join(dir, f.names))
	return string(credential), err == nil
}

// variable returns the name of the environment variable of KeepNames.
func (f *legacyFamily) variable() string { return "WARPROUTE_" + strings.ToUpper(f.names) }

// KeepNames writes the names of the loaded tables of iptables-legacy to the environment, for Forwarding in a process of
// another user. Without it, that user cannot see the tables.
func KeepNames() {
	for _, f := range legacyFamilies {
		if names, err := f.loaded(); err == nil {
			_ = os.Setenv(f.variable(), strings.Join(names, " ")) // else Forwarding reports that it cannot read them
		}
	}
}

// chainsOf returns the chains of forwarded packets in a table.
func (f *legacyFamily) chainsOf(table string, info *tableInfo, entries []byte) (all []Chain) {
	for hook := range info.Entry {
		name := legacyHooks[hook]
		if name == "" || info.ValidHooks>>hook&1 == 0 {
			continue
		}
		c := Chain{Table: f.command + " " + table, Hook: name, Name: strings.ToUpper(name)}
		if info.Entry[hook] != info.Underflow[hook] {
			c.Rules = -1 // unknown number
		}
		c.Drops = f.drops(entries, int(info.Underflow[hook]))
		all = append(all, c)
	}
	return all
}

// drops reports whether the policy entry at an offset drops packets: its verdict is -NF_DROP - 1.
func (f *legacyFamily) drops(entries []byte, at int) bool {
	const verdictOffset = 32 // after struct xt_entry_target
	if at < 0 || at+f.targetOffset+2 > len(entries) {
		return false
	}
	target := at + int(binary.NativeEndian.Uint16(entries[at+f.targetOffset:])) + verdictOffset
	return target+4 <= len(entries) && int32(binary.NativeEndian.Uint32(entries[target:])) == -1
}

// entriesRequest returns a struct ipt_get_entries with space for the rules of a table.
func entriesRequest(info *tableInfo) []byte {
	b := make([]byte, entriesOffset+int(info.Size))
	copy(b, info.Name[:])
	binary.NativeEndian.PutUint32(b[len(info.Name):], info.Size)
	return b
}
