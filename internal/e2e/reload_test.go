package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// reloading is a router with a configuration file.
type reloading struct {
	*router
	top  *lab.Topology
	path string
}

// startReloading starts a router with a file that names its ports, without flags that override keys.
func startReloading(t *testing.T, top *lab.Topology) *reloading {
	t.Helper()
	r := &reloading{router: &router{&labtest.Router{T: t}}, top: top, path: filepath.Join(t.TempDir(), "warproute.yaml")}
	r.write("")
	r.router = startRouterWith(t, top.Router, "--config", r.path)
	return r
}

// write writes the file: the ports and further keys.
func (r *reloading) write(format string, args ...any) {
	r.T.Helper()
	text := fmt.Sprintf("ports: [{interface: %s}, {interface: %s}]\n", lab.LAN, lab.WAN) + fmt.Sprintf(format, args...)
	writeFile(r.T, r.path, text)
}

// reload runs `warproute reload` and returns its exit code and output.
func (r *reloading) reload(args ...string) (code int, stdout, stderr string) {
	r.T.Helper()
	cmd := exec.Command(program, append([]string{"reload", "--socket", r.Socket}, args...)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			r.T.Fatal(err)
		}
		code = exit.ExitCode()
	}
	return code, out.String(), errs.String()
}

func (r *reloading) metrics(address string) string { return scrape(r.top.Router, address) }

// scrape returns the metrics served at an address in a namespace, "" if there are none.
func scrape(ns *lab.Namespace, address string) string {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (conn net.Conn, err error) {
		err = ns.Do(func() error { conn, err = net.Dial("tcp", address); return err })
		return conn, err
	}}, Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	all, _ := io.ReadAll(resp.Body)
	return string(all)
}

// A reload reports the changes and applies all or none of them, without packet loss.
func TestReload(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	r := startReloading(t, top)
	for _, s := range servers { // resolves neighbors, and Linux hands the ports over
		mustPing(t, top.Client, netip.MustParseAddr(s), lab.PingOptions{Count: 10})
	}
	server := startWatch(t, top.Server, lab.ServerLink)
	l := startLoad(t, top, 2000, servers...)

	batch := func() string {
		t.Helper()
		e, err := r.engine()
		require.NoError(t, err)
		return fmt.Sprintf("%d %v", e.MaxPackets, time.Duration(e.MaxDelayNS))
	}
	expect := func(what string, wantCode int, wantOut, wantErr, wantBatch string, args ...string) {
		t.Helper()
		code, out, errs := r.reload(args...)
		if code != wantCode || !strings.Contains(out, wantOut) || !strings.Contains(errs, wantErr) || wantErr == "" && errs != "" {
			t.Errorf("%s: exit code %d, %q, %q", what, code, out, errs)
		}
		if got := batch(); got != wantBatch {
			t.Errorf("%s: then the batch is %s, want %s", what, got, wantBatch)
		}
	}
	first := func() time.Time {
		e, err := r.engine()
		require.NoError(t, err)
		return e.ConfigLoaded
	}
	loaded := first()

	expect("the same file", 0, "no changes to the active configuration", "", "1024 50µs")
	r.write("batch: {max_packets: 2048, max_delay: 20us}\nmetrics: {listen: \"127.0.0.1:9274\"}\nicmp: {burst: 7}\nbusy_poll: 10us\n")
	expect("a dry run", 0, "~ batch.max_packets: 0 -> 2048\n~ batch.max_delay: 50µs -> 20µs\n~ metrics.listen: \"127.0.0.1:9273\" -> \"127.0.0.1:9274\"\n", "", "1024 50µs", "--dry-run")
	if !first().Equal(loaded) {
		t.Error("a dry run has changed the time of the configuration")
	}
	expect("a change", 0, "5 changes applied\n", "", "2048 20µs")
	if !first().After(loaded) {
		t.Error("the time of the configuration has not changed")
	}
	if r.metrics("127.0.0.1:9273") != "" || r.metrics("127.0.0.1:9274") == "" {
		t.Error("metrics are not served at the new address alone")
	}
	in := func(want string) {
		t.Helper()
		if !strings.Contains(r.metrics("127.0.0.1:9274"), want+"\n") {
			t.Errorf("the metrics have no %s", want)
		}
	}
	in(`warproute_config_reloads_total{result="unchanged"} 1`)
	in(`warproute_config_reloads_total{result="applied"} 1`)

	// None of these applies, though the first change could.
	r.write("batch: {max_packets: 16}\nworkers: 1\nmetrics: {listen: \"\"}\n")
	expect("a change that needs a restart", 1, "~ workers: 0 -> 1\n", "nothing changed; these keys need a restart: workers\n", "2048 20µs")
	r.write("batch: {max_packets: 16}\nengine: gpuu\n")
	expect("a mistake", 78, "", r.path+":3:9: engine: unknown value \"gpuu\"; write auto, cpu or gpu\n", "2048 20µs")
	r.write("batch: {max_packets: 16}\nmetrics: {listen: \"127.0.0.1:9275\"}\n")
	var listener net.Listener
	require.NoError(t, top.Router.Do(func() (err error) { listener, err = net.Listen("tcp", "127.0.0.1:9275"); return err }))
	expect("an address that is in use", 1, "~ metrics.listen", "nothing changed: listen at 127.0.0.1:9275", "2048 20µs")
	in(`warproute_config_reloads_total{result="refused"} 1`)
	in(`warproute_config_reloads_total{result="invalid"} 1`)
	in(`warproute_config_reloads_total{result="failed"} 1`)
	listener.Close()

	code, out, _ := r.reload("--json")
	var answer status.Reload
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != 0 || answer.Result != status.ReloadApplied || len(answer.Changes) != 5 {
		t.Errorf("as JSON: %d, %+v, %v", code, answer, err)
	}
	if got := batch(); got != "16 50µs" {
		t.Errorf("then the batch is %s", got)
	}
	l.end()
	for flow := range servers {
		if lost, disorder := missing(l.sent[flow].Load(), server.of(uint32(flow))); len(lost)+disorder > 0 {
			t.Errorf("flow %d: %d lost, %d out of order", flow, len(lost), disorder)
		}
	}
}
