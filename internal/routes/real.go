package routes

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// FileVariable names the environment variable with the path of the real table.
const FileVariable = "WARPROUTE_ROUTES"

// Real returns the table in the file that WARPROUTE_ROUTES names: compressed by gzip, with one prefix
// per line. Without the variable it returns a synthetic table of the size of the Internet's, and
// Source says so.
func Real(f Family, seed uint64) (*Set, error) {
	path := os.Getenv(FileVariable)
	if path == "" {
		s, err := New("internet", f, 0, seed)
		if err == nil {
			s.Source = fmt.Sprintf("%s is not set: %s", FileVariable, s.Source)
		}
		return s, err
	}
	prefixes, err := readPrefixes(path)
	if err != nil {
		return nil, err
	}
	return FromPrefixes(f, "real", filepath.Base(path), prefixes, seed), nil
}

// readPrefixes reads a file of plain prefixes. It does not use package routefile, which imports the
// tables that are tested with these prefixes.
func readPrefixes(path string) ([]netip.Prefix, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the real table: %w", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("read the real table: unpack %s: %w", path, err)
	}
	var prefixes []netip.Prefix
	lines := bufio.NewScanner(z)
	for n := 1; lines.Scan(); n++ {
		p, err := netip.ParsePrefix(strings.TrimSpace(lines.Text()))
		if lines.Err() != nil {
			break // the line is incomplete
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		prefixes = append(prefixes, p)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the real table: %s: %w", path, err)
	}
	return prefixes, nil
}
