package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/routefile"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/internal/testutil"
)

func TestReadAddrsBatchesInOrder(t *testing.T) {
	want := make([]netip.Addr, addrsAtOnce+20_000)
	for i, a := 0, netip.MustParseAddr("2001:db8::"); i < len(want); i, a = i+1, a.Next() {
		want[i] = a
	}
	for _, separator := range []string{" ", "\n"} {
		var text strings.Builder
		for _, a := range want {
			text.WriteString(a.String() + separator)
		}
		var got []netip.Addr
		var sizes []int
		for addrs, err := range readAddrs(strings.NewReader(text.String())) {
			require.NoError(t, err)
			got, sizes = append(got, addrs...), append(sizes, len(addrs))
		}
		if !slices.Equal(got, want) || !slices.Equal(sizes, []int{addrsAtOnce, 20_000}) {
			t.Errorf("%d addresses in batches of %d, want %d in their order", len(got), sizes, len(want))
		}
	}
}

func TestAnswersBeforeAnInvalidAddressArePrinted(t *testing.T) {
	text := strings.Repeat("192.0.2.1\n", addrsAtOnce) + "hello\n"
	var out bytes.Buffer
	table, err := routefile.NewTable([]routefile.Route{{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Type: "unicast"}})
	require.NoError(t, err)
	err = printAnswers(&out, false, readAddrs(strings.NewReader(text)), onCPU(table).answer)
	if want := fmt.Sprintf(`standard input:%d: "hello" is not an IP address`, addrsAtOnce+1); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if n := strings.Count(out.String(), "\n"); n != addrsAtOnce+1 {
		t.Errorf("%d lines, want %d and the header", n, addrsAtOnce)
	}
}

// compareEngines compares the output of both engines byte by byte, for the edges of every prefix.
func compareEngines(t *testing.T, driver string, sets ...*routes.Set) {
	t.Helper()
	var all []routefile.Route
	var addrs []netip.Addr
	for _, set := range sets {
		for p := range set.All() {
			all = append(all, routefile.Route{Prefix: p, Type: "unicast", Paths: []routefile.Path{{Via: p.Addr(), Dev: "lan0", Weight: 1}}})
		}
		addrs = slices.AppendSeq(addrs, set.Edges())
	}
	slices.SortFunc(addrs, func(a, b netip.Addr) int { // families mixed, in no table's order
		x, y := a.As16(), b.As16()
		slices.Reverse(x[:])
		slices.Reverse(y[:])
		return bytes.Compare(x[:], y[:])
	})
	table, err := routefile.NewTable(all)
	require.NoError(t, err)
	gpu, err := onGPU(driver, table)
	require.NoError(t, err)
	batches := func(yield func([]netip.Addr, error) bool) {
		for part := range slices.Chunk(addrs, addrsAtOnce) {
			if !yield(part, nil) {
				return
			}
		}
	}
	answers := func(answer func([]netip.Addr) ([]status.Answer, error)) []byte {
		var out bytes.Buffer
		require.NoError(t, printAnswers(&out, false, batches, answer))
		return out.Bytes()
	}
	got, want := answers(gpu.answer), answers(onCPU(table).answer)
	if err := gpu.close(); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(got, want) {
		g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
		for i := range min(len(g), len(w)) {
			if g[i] != w[i] {
				t.Fatalf("%d routes, line %d: %q, the CPU prints %q", table.Len(), i+1, g[i], w[i])
			}
		}
		t.Fatalf("%d lines, the CPU prints %d", len(g), len(w))
	}
	if n := bytes.Count(want, []byte("\n")); n != len(addrs)+1 || bytes.Count(want, []byte(" lan0\n")) < n/2 {
		t.Errorf("%d lines, %d of them forward", n, bytes.Count(want, []byte(" lan0\n")))
	}
}

func newSets(t *testing.T, table string, n int) (sets []*routes.Set) {
	t.Helper()
	for _, f := range []routes.Family{routes.IPv4, routes.IPv6} {
		set, err := routes.New(table, f, n, 1)
		require.NoError(t, err)
		sets = append(sets, set)
	}
	return sets
}

// The fake driver runs the kernels on the host.
func TestFakeGPUAgreesWithCPU(t *testing.T) {
	lib := testutil.FakeGPU(t, "../../bench/gpulookup/testdata/fakegpu.c", "")
	for _, table := range []string{"internet", "nested", "dense"} {
		compareEngines(t, lib, newSets(t, table, 1000)...)
	}
	compareEngines(t, lib, newSets(t, "internet", 20_000)...) // more than one batch
}

func TestRouteLookupReportsWriteErrors(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err) // every Linux has it
	}
	defer full.Close()
	file := filepath.Join(t.TempDir(), "routes")
	require.NoError(t, os.WriteFile(file, []byte("192.0.2.0/24\n"), 0o600))
	root := newRootCommand()
	root.SetOut(full)
	root.SetArgs([]string{"route", "lookup", "--routes", file, "192.0.2.1"})
	if err := root.ExecuteContext(t.Context()); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
}

func TestRouteLookupPassesTheEngineToTheRouter(t *testing.T) {
	socketPath := filepath.Join(t.TempDir(), "w.sock")
	s, err := socket.Serve(socketPath, map[string]socket.Handler{"/route": func(r *http.Request) (any, error) {
		if r.URL.Query().Get("engine") == "gpu" {
			return nil, errors.New("GPU 1: out of order")
		}
		return status.Answer{Address: netip.MustParseAddr(r.URL.Query().Get("addr"))}, nil
	}}, socket.Access{Group: -1})
	require.NoError(t, err)
	defer s.Close()
	for engine, want := range map[string]string{"cpu": "", "gpu": "GPU 1: out of order"} {
		root := newRootCommand()
		root.SetOut(io.Discard)
		root.SetArgs([]string{"route", "lookup", "--socket", socketPath, "--engine", engine, "192.0.2.1"})
		got := ""
		if err := root.ExecuteContext(t.Context()); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("--engine %s: %q, want %q", engine, got, want)
		}
	}
}
