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
	"github.com/warproute/warproute/internal/service"
)

type runFlags struct {
	config, engine, socket, metrics string
	ports                           []string
	given                           func(flag string) bool // on the command line, if as ""
	running                         []config.Port          // once it runs
}

func newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [--config FILE] [--port IFACE]...",
		Short: "Forward packets between ports",
		Long: `Run forwards IPv4 and IPv6 packets between ports by Linux's own routing table,
until it is told to stop by SIGINT or SIGTERM. Two ports and no file are enough:

  warproute run --port eth1 --port eth2

It exits with 0 when stopped by a signal, 64 for wrong arguments, 78 for a wrong
configuration, and 75 when the host lacks what the configuration names, such as a port,
and may have it later. 1 is any other failure, and 2 a crash. A service manager should
restart it after all but 0, 64 and 78, as contrib/warproute.service does. To systemd it
reports (sd_notify) when it forwards, reloads and stops, and, for the watchdog, that its
workers and its mirrors of Linux's tables make progress.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, &f) },
	}
	f.given = cmd.Flags().Changed
	cmd.Flags().StringVarP(&f.config, "config", "c", "", "configuration `file` (see warproute check)")
	cmd.Flags().StringArrayVarP(&f.ports, "port", "p", nil, "network `interface` to forward on; give each, in place of a file")
	cmd.Flags().StringVar(&f.engine, "engine", "", "auto, cpu or gpu (over the file's)")
	cmd.Flags().StringVar(&f.socket, "socket", "", "`path` of the control socket (over the file's)")
	cmd.Flags().StringVar(&f.metrics, "metrics", "", "`address` that serves metrics; none or \"\" for nowhere (over the file's)")
	return cmd
}

// load makes a checked configuration of the flags.
func (f *runFlags) load() (*config.Config, error) {
	var cfg *config.Config
	switch {
	case f.config != "" && len(f.ports) > 0:
		return nil, usageError(errors.New("run with --config and --port: name the ports in the file or by flags, not both"))
	case f.config != "":
		var err error
		if cfg, err = config.Load(f.config); err != nil {
			return nil, configError(err)
		}
	case len(f.ports) > 0:
		cfg = config.Default(f.ports...)
	default:
		return nil, usageError(errors.New("run without ports: name two by --port, or a configuration by --config"))
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
	if err := config.CheckHost(cfg, f.running...); err != nil {
		cfg.IPsec.Zero()
		return nil, configError(err)
	}
	return cfg, nil
}

func run(cmd *cobra.Command, f *runFlags) error {
	cfg, err := f.load()
	if err != nil {
		if exitCode(err) == exitTempFail {
			guardEarly(cmd.ErrOrStderr(), f.config)
		}
		return err
	}
	if err := requirePrivileges(); err != nil {
		return err
	}
	signal.Ignore(unix.SIGPIPE) // a router goes on when whoever read its log has gone
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, unix.SIGHUP)
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	s, err := service.Start(cfg, thisBuild(), log)
	if err != nil {
		return err
	}
	f.running = cfg.Ports
	describe(cmd.OutOrStdout(), cfg, s.Snapshot())
	m := manager{log}
	m.ready(cfg)
	go m.watch(cmd.Context(), s.Probe)
	for {
		select {
		case <-cmd.Context().Done(): // SIGINT or SIGTERM
			m.stopping()
			account(cmd.OutOrStdout(), s.Stop())
			return nil
		case <-hangups:
			m.reloading()
			s.Reload(f.reload, false) // which logs what becomes of it
			m.ready(cfg)
		case q := <-s.ReloadRequests():
			m.reloading()
			r := s.Reload(f.reload, q.DryRun)
			m.ready(cfg)
			q.Answer(r)
		}
	}
}

// reload is load for a router that runs.
func (f *runFlags) reload() (*config.Config, error) {
	if f.config == "" {
		return nil, errors.New("the router was started without a configuration file, so there is nothing to reload; start it with --config")
	}
	return f.load()
}

// describe says, in one screen, what a router that has just started is doing.
func describe(w io.Writer, cfg *config.Config, snap *status.Snapshot) {
	memory := "normal pages (warproute doctor tells how to get huge ones)"
	if snap.Engine.HugePages {
		memory = "huge pages"
	}
	fmt.Fprintf(w, "warproute %s: forwarding on %d ports\n\n", thisBuild().Version, len(snap.Ports))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range snap.Ports {
		state := "down"
		if p.Up {
			state = "up"
		}
		fmt.Fprintf(t, "  port\t%s\t%s, XDP %s, %d queues, MTU %d, %s\n", p.Name, state, p.Mode, p.Queues, p.MTU, p.MAC)
		if p.ModeReason != "" {
			fmt.Fprintf(t, "\t\t(%s)\n", p.ModeReason)
		}
	}
	fmt.Fprintf(t, "  engine\t%s\t%s\n", snap.Engine.Name, snap.Engine.Why)
	fmt.Fprintf(t, "  workers\t%d\ton cores %s, chunks of up to %d packets or %v, frames on %s\n", snap.Stats.Workers,
		strings.Trim(fmt.Sprint(snap.Engine.Cores), "[]"), cfg.Batch.MaxPackets, cfg.Batch.MaxDelay, memory)
	fmt.Fprintf(t, "  routes\t%d\tof IPv4 and %d of IPv6, from Linux\n", snap.RoutesIPv4, snap.RoutesIPv6)
	if cfg.IPsec.Source == config.SourceXFRM {
		fmt.Fprintf(t, "  ipsec\t%d\tassociations; they and the policies from Linux, as a key daemon sets them\n", len(snap.SAs))
	} else if cfg.Protects() {
		fmt.Fprintf(t, "  ipsec\t%d\tassociations and %d policies, from the configuration\n", len(cfg.IPsec.SAs), len(cfg.IPsec.Policies))
	}
	fmt.Fprintf(t, "  control\t\t%s (warproute show)\n", cfg.Control.Socket)
	if cfg.Metrics.Listen != "" {
		fmt.Fprintf(t, "  metrics\t\thttp://%s/metrics\n", cfg.Metrics.Listen)
	}
	_ = t.Flush()
	fmt.Fprintln(w)
}

// account says what became of every frame that arrived at the ports of a router
// that has stopped.
func account(w io.Writer, snap *status.Snapshot) {
	var arrived, linux, lost, transit, rx, tx, dropped uint64
	for i, p := range snap.Ports {
		c := &snap.Stats.Ports[i]
		rx, tx, dropped = rx+c.RxPackets, tx+c.TxPackets, dropped+c.Dropped()
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
		arrived, linux, lost, rx, tx-uint64(snap.Stats.Made-snap.Stats.Merged-snap.Stats.Delivered), dropped)
	if transit > 0 {
		fmt.Fprintf(w, "  and %d dropped before the router, because Linux might have forwarded them past the policies\n", transit)
	}
	if n := snap.Stats.Made; n > 0 {
		fmt.Fprintf(w, "  and %d packets that the router made: ICMP errors, fragments, or packets of Linux's to tunnels\n", n)
	}
	if n := snap.Stats.Merged; n > 0 {
		fmt.Fprintf(w, "  %d fragments of those transmitted became part of others\n", n)
	}
	if n := snap.Stats.Delivered; n > 0 {
		fmt.Fprintf(w, "  %d of those transmitted were given to Linux, out of tunnels\n", n)
	}
	if n := snap.Stats.Pending; n > 0 {
		fmt.Fprintf(w, "  %d of those transmitted were still in the ports' rings, and are lost\n", n)
	}
	for _, d := range status.Drops(snap) {
		fmt.Fprintf(w, "  dropped at %s: %d, %s\n", d.Port, d.Packets, d.Sentence)
	}
}
