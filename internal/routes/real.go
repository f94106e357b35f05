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

// besideRoot is where the real table lies if nothing else is said, seen from the
// project's root.
const besideRoot = "../shared/data/full-table.txt.gz"

// Real returns the internet's table: a file packed by gzip with one prefix a
// line, at the path in WARPROUTE_ROUTES or beside the project. Where the latter
// is absent it returns a synthetic one of the same size, and Source tells.
func Real(f Family, seed uint64) (*Set, error) {
	path := os.Getenv(FileVariable)
	if path == "" {
		path = filepath.Join(projectRoot(), besideRoot)
		if _, err := os.Stat(path); os.IsNotExist(err) {
			s, err := New("internet", f, 0, seed)
			if err == nil {
				s.Source = fmt.Sprintf("no file %s and no %s: %s", besideRoot, FileVariable, s.Source)
			}
			return s, err
		}
	}
	prefixes, err := readPrefixes(path)
	if err != nil {
		return nil, err
	}
	return FromPrefixes(f, "real", filepath.Base(path), prefixes, seed), nil
}

// projectRoot is the nearest folder with a go.mod, from the working one upwards,
// or the working one.
func projectRoot() string {
	start, err := os.Getwd()
	if err != nil {
		return "."
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return start
		}
	}
}

// readPrefixes reads bare prefixes and nothing else. Package routefile reads
// more, but stands on the tables that are tested with what is read here.
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
			break // the line is what came before that
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
