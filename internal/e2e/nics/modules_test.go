package nics

import (
	"debug/elf"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/drivers"
	"github.com/warproute/warproute/internal/require"
)

// Functions of the kernel that a module calls for XDP redirection and for AF_XDP zero-copy.
var (
	redirects = regexp.MustCompile(`^(xdp_do_redirect|xdp_do_flush|xdp_return_frame)$`)
	zeroCopy  = regexp.MustCompile(`^xsk_tx_peek_`)
)

// The table of drivers says which modules of the kernels have native XDP and zero-copy.
func TestTableAgreesWithTheModulesOfKernels(t *testing.T) {
	for _, kernel := range kernels() {
		root := filepath.Join(directory, kernel, "lib/modules")
		files := map[string]string{} // by module
		version := drivers.Version{}
		target, err := filepath.EvalSymlinks(root)
		require.NoError(t, err)
		err = filepath.WalkDir(target, func(path string, d fs.DirEntry, err error) error {
			if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok && err == nil {
				files[name] = path
			}
			return err
		})
		require.NoError(t, err)
		names, err := filepath.Glob(filepath.Join(target, "*"))
		require.NoError(t, err)
		if len(names) != 1 {
			t.Fatalf("one kernel is wanted, found %q: fetch it with scripts/nics.sh", names)
		}
		numbers := strings.Split(filepath.Base(names[0]), ".")
		version.Major, _ = strconv.Atoi(numbers[0])
		version.Minor, _ = strconv.Atoi(numbers[1])
		checked := 0
		for _, d := range drivers.All {
			module := d.Module
			if module == "" {
				module = d.Name
			}
			file, ok := files[module]
			if !ok {
				continue // not built by Debian
			}
			checked++
			native, zc := supportOf(t, file)
			if want := version.Since(d.Native); native != want {
				t.Errorf("%s of Linux %v redirects by native XDP: %v, the table says %v", module, version, native, want)
			}
			if want := version.Since(d.ZeroCopy); zc != want {
				t.Errorf("%s of Linux %v has zero-copy: %v, the table says %v", module, version, zc, want)
			}
		}
		if checked < 15 {
			t.Errorf("only %d drivers of the table are modules of Linux %v", checked, version)
		}
		t.Logf("Linux %v: %d modules", version, checked)
	}
}

func supportOf(t *testing.T, module string) (native, zc bool) {
	t.Helper()
	f, err := elf.Open(module)
	require.NoError(t, err)
	defer f.Close()
	symbols, err := f.Symbols()
	require.NoError(t, err)
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF {
			native = native || redirects.MatchString(s.Name)
			zc = zc || zeroCopy.MatchString(s.Name)
		}
	}
	return native, zc
}
