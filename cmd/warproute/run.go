package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/internal/privilege"
)

type runFlags struct {
	config, engine, socket, metrics string
	ports                           []string
	given                           func(flag string) bool // reports whether a flag is set, possibly to ""
	running                         []config.Port          // set after the start
	upgradeFD                       int                    // connection to the router that this one replaces, 0 for none
}

func newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [--config FILE] [--port IFACE]...",
		Short: "Forward packets between ports",
		Long: `Forward IPv4 and IPv6 packets between ports by Linux's routing table, until SIGINT or
SIGTERM. A configuration file is optional:

  warproute run --port eth1 --port eth2

Started by root, it keeps only the capabilities that it needs, becomes the user of
privileges.user, if any, and refuses system calls that it does not need (docs/install.md).

Exit codes: 0 stopped by a signal, 64 wrong arguments, 78 invalid configuration, 75 the
host lacks something that the configuration names, such as a port, 1 any other failure,
2 crash. A service manager should restart it unless the code is 0, 64 or 78, as
contrib/warproute.service does.

With systemd (sd_notify), run reports when it is ready, reloads and stops. It feeds the
watchdog while the workers and the mirrors of Linux's tables make progress.

` + "`warproute upgrade`" + ` replaces the running router by the installed binary.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, &f) },
	}
	f.given = cmd.Flags().Changed
	cmd.Flags().StringVarP(&f.config, "config", "c", "", "configuration `FILE`")
	cmd.Flags().StringArrayVarP(&f.ports, "port", "p", nil, "forward on interface `IFACE`; repeat for each port (not with --config)")
	cmd.Flags().StringVar(&f.engine, "engine", "", "`ENGINE`: auto, cpu or gpu (overrides the file)")
	cmd.Flags().StringVar(&f.socket, "socket", "", "`PATH` of the control socket (overrides the file)")
	cmd.Flags().StringVar(&f.metrics, "metrics", "", "listen `ADDRESS` for Prometheus metrics; \"none\" disables it (overrides the file)")
	cmd.Flags().IntVar(&f.upgradeFD, upgradeFlag, 0, "file descriptor of the connection to the router that this one replaces")
	_ = cmd.Flags().MarkHidden(upgradeFlag)
	cli.CompletePorts(cmd, "port")
	cli.CompleteValues(cmd, "engine", "auto", "cpu", "gpu")
	cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

// load returns the configuration of the flags, checked against this host.
func (f *runFlags) load() (*config.Config, error) {
	cfg, err := f.parse()
	if err != nil {
		return nil, err
	}
	if err := config.CheckHost(cfg, f.running...); err != nil {
		cfg.IPsec.Zero()
		return nil, cli.ConfigError(err)
	}
	return cfg, nil
}

// parse returns the configuration of the flags.
func (f *runFlags) parse() (*config.Config, error) {
	var cfg *config.Config
	switch {
	case f.config != "" && len(f.ports) > 0:
		return nil, cli.UsageError(errors.New("run: --config and --port exclude each other"))
	case f.config != "":
		var err error
		if cfg, err = config.Load(f.config); err != nil {
			return nil, cli.ConfigError(err)
		}
	case len(f.ports) > 0:
		cfg = config.Default(f.ports...)
	default:
		return nil, cli.UsageError(errors.New("run needs ports: name two by --port, or a configuration file by --config"))
	}
	if f.given("engine") {
		cfg.Engine = config.Engine(f.engine)
	}
	if f.given("socket") {
		cfg.Control.Socket = f.socket
	}
	if f.given("metrics") {
		cfg.Metrics.Listen = f.metrics
		if f.metrics == "none" {
			cfg.Metrics.Listen = ""
		}
	}
	return cfg, nil
}

func run(cmd *cobra.Command, f *runFlags) error {
	if err := f.reduce(); err != nil {
		from, _ := f.predecessor()
		from.Fail(err)
		return err
	}
	spawner, unspawned := startSpawner() // before keys are read and programs refused
	swappable, err := privilege.ProtectMemory()
	if err != nil {
		return err
	}
	from, err := f.predecessor()
	if err != nil {
		return err
	}
	cfg, err := f.load()
	if err != nil {
		from.Fail(err)
		if from == nil && cli.ExitCode(err) == cli.ExitTempFail {
			guardEarly(cmd.ErrOrStderr(), f.config)
		}
		return err
	}
	if err := cli.RequirePrivileges(); err != nil {
		from.Fail(err)
		return err
	}
	signal.Ignore(unix.SIGPIPE) // keep forwarding if the reader of the log exits
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, unix.SIGHUP)
	fmt.Fprintf(cmd.OutOrStdout(), "warproute %s: starting on %s\n\n", cli.Build().Version, startedOn(cfg))
	level := new(slog.LevelVar)
	level.Set(cfg.Log.Level.Slog())
	r := &running{cmd: cmd, f: f, spawner: spawner, log: cli.NewLogger(os.Stderr, cfg.Log.Format, level), level: level}
	if unspawned != nil {
		r.log.Warn("no hot upgrade", "err", unspawned)
	}
	if swappable != nil && cfg.Protects() {
		r.log.Warn("keys may be written to swap", "err", swappable)
	}
	r.manager = manager{r.log}
	if err := r.start(cfg, from); err != nil {
		return err
	}
	for {
		select {
		case <-cmd.Context().Done(): // SIGINT or SIGTERM
			r.manager.stopping()
			r.stop()
			return nil
		case <-hangups:
			r.reload(false) // logs the result
		case q := <-r.ReloadRequests():
			q.Answer(r.reload(q.DryRun))
		case q := <-r.UpgradeRequests():
			if ended, err := r.upgrade(q); ended || err != nil {
				return err
			}
		}
	}
}

// startedOn describes the ports of a configuration: their number, or the patterns.
func startedOn(cfg *config.Config) string {
	if !cfg.Patterns() {
		return cli.Count(len(cfg.Ports), "port")
	}
	var names []string
	for _, p := range cfg.Ports {
		names = append(names, p.Interface)
	}
	return "ports " + strings.Join(names, ", ")
}

// reload returns the configuration for a reload of the running router.
func (f *runFlags) reload() (*config.Config, error) {
	if f.config == "" {
		return nil, errors.New("reload: the router was started without a configuration file; start it with --config")
	}
	return f.load()
}

// describedPorts is the maximum number of ports that describe prints.
const describedPorts = 64

// describe prints ports, engine, workers and tables of a router that has just started.
func describe(w io.Writer, cfg *config.Config, snap *status.Snapshot) {
	memory := "normal pages (`warproute doctor` shows how to get huge pages)"
	if snap.Engine.HugePages {
		memory = "huge pages"
	}
	ports := 0
	for _, p := range snap.Ports {
		if p.Bond == "" {
			ports++
		}
	}
	fmt.Fprintf(w, "forwarding on %s\n", cli.Count(ports, "port"))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, p := range snap.Ports {
		if i >= describedPorts && len(snap.Ports) > i+1 {
			fmt.Fprintf(t, "  ports\t\tand %d more (warproute show ports)\n", len(snap.Ports)-i)
			break
		}
		state := "down"
		if p.Up {
			state = "up"
		}
		fmt.Fprintf(t, "  port\t%s\t%s, XDP %s, %s, MTU %d, %s\n", p.Name, state, p.Mode, cli.Count(p.Queues, "queue"), p.MTU, p.MAC)
		if p.Bond != "" {
			fmt.Fprintf(t, "\t\t(member of %s)\n", p.Bond)
		}
		if p.ModeReason != "" {
			fmt.Fprintf(t, "\t\t(%s)\n", p.ModeReason)
		}
	}
	fmt.Fprintf(t, "  engine\t%s\t%s\n", snap.Engine.Name, snap.Engine.Why)
	cores := "cores"
	if len(snap.Engine.Cores) == 1 {
		cores = "core"
	}
	fmt.Fprintf(t, "  workers\t%d\ton %s %s; chunks of up to %d packets or %v; frames in %s\n", snap.Stats.Workers,
		cores, strings.Trim(fmt.Sprint(snap.Engine.Cores), "[]"), snap.Engine.MaxPackets, cfg.Batch.MaxDelay, memory)
	fmt.Fprintf(t, "  routes\t\t%d IPv4 and %d IPv6, from Linux\n", snap.RoutesIPv4, snap.RoutesIPv6)
	if cfg.IPsec.Source == config.SourceXFRM {
		fmt.Fprintf(t, "  ipsec\t\t%s; SAs and policies from Linux (XFRM)\n", cli.Count(len(snap.SAs), "SA"))
	} else if cfg.Protects() {
		fmt.Fprintf(t, "  ipsec\t\t%s and %d policies, from the configuration\n", cli.Count(len(cfg.IPsec.SAs), "SA"), len(cfg.IPsec.Policies))
	}
	fmt.Fprintf(t, "  control\t\t%s (warproute show)\n", cfg.Control.Socket)
	if cfg.Metrics.Listen != "" {
		fmt.Fprintf(t, "  metrics\t\t%s\n", metricsAddress(cfg.Metrics))
	}
	if cfg.Status.Listen != "" {
		fmt.Fprintf(t, "  status page\t\thttp://%s/\n", cfg.Status.Listen)
	}
	_ = t.Flush()
	fmt.Fprintln(w)
}

// account prints how many frames a stopped router received, transmitted and dropped. The numbers
// add up to the frames that arrived.
func account(w io.Writer, snap *status.Snapshot) {
	var arrived, linux, lost, transit, rx, tx, dropped uint64
	for i, p := range snap.Ports {
		c := &snap.Stats.Ports[i]
		dropped += c.Dropped()
		if !p.Logical() { // includes its VLANs
			rx, tx = rx+c.RxPackets, tx+c.TxPackets
		}
		for _, n := range p.XDP.ToLinux {
			linux += n
		}
		for _, n := range p.XDP.Transit {
			transit += n
		}
		lost += p.XDP.NoSocket + p.XDP.Refused + p.Rings.RxDropped + p.Rings.RxRingFull
		arrived += p.XDP.ToSocket + p.XDP.NoSocket
	}
	arrived += linux + transit
	fmt.Fprintf(w, "stopped: %d frames arrived: %d handed to Linux, %d lost before the router, %d received; of these %d transmitted, %d dropped\n",
		arrived, linux, lost, rx, tx-uint64(snap.Stats.Originated-snap.Stats.Merged-snap.Stats.Delivered), dropped)
	if transit > 0 {
		fmt.Fprintf(w, "  %d more were dropped by XDP, because Linux could have forwarded them past the policies\n", transit)
	}
	if n := snap.Stats.Originated; n > 0 {
		fmt.Fprintf(w, "  %d more were generated: ICMP errors, fragments, and packets from this host to tunnels\n", n)
	}
	if n := snap.Stats.Merged; n > 0 {
		fmt.Fprintf(w, "  %d transmitted fragments were reassembled\n", n)
	}
	exited := uint64(0)
	for i := range snap.Stats.Ports {
		exited += snap.Stats.Ports[i].ExitPackets
	}
	if exited > 0 {
		fmt.Fprintf(w, "  %d transmitted packets left through Linux, by interfaces that are not ports\n", exited)
	}
	if n := uint64(snap.Stats.Delivered) - exited; n > 0 {
		fmt.Fprintf(w, "  %d transmitted packets were delivered to this host from tunnels\n", n)
	}
	if n := snap.Stats.Transmitting; n > 0 {
		fmt.Fprintf(w, "  %d transmitted packets were still in the TX rings, and are lost\n", n)
	}
	for _, d := range status.Drops(snap) {
		fmt.Fprintf(w, "  %s at %s: %d, %s\n", d.Fate(), d.Port, d.Packets, d.Description)
	}
}

// metricsAddress returns where metrics are served, as a URL if they are without TLS.
func metricsAddress(m config.Metrics) string {
	switch {
	case strings.HasPrefix(m.Listen, "unix:"):
		return m.Listen + " (path /metrics)"
	case m.WebConfig != "":
		return m.Listen + "/metrics, as " + m.WebConfig + " says"
	}
	return "http://" + m.Listen + "/metrics"
}
