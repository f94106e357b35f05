package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/gen"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/internal/lab"
)

func newDemoCommand() *cobra.Command {
	d := demo{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Route real packets through network namespaces",
		Long: `Route real packets through network namespaces of a client, a router and a server. The router
is ` + "`warproute run`" + `, with Linux's own forwarding off. Demo sends pings, TCP and 64-byte packets
through it and prints rates and the latency of each stage. Then it builds an IPsec tunnel
between two routers and captures the packets between them. It fails if packets are lost or
changed, and removes the namespaces.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := d.check(); err != nil {
				return cli.UsageError(err)
			}
			var err error
			if d.program, err = findRouter(d.program); err != nil {
				return err
			}
			d.out = cmd.OutOrStdout()
			if err := d.run(cmd.Context()); err != nil {
				return err
			}
			d.say("everything went through")
			return nil
		},
	}
	addRouterFlag(cmd, &d.program)
	cmd.Flags().StringVar(&d.engine, "engine", "auto", "`ENGINE`: auto, cpu or gpu")
	cli.CompleteValues(cmd, "engine", "auto", "cpu", "gpu")
	cmd.Flags().StringVar(&d.capture, "capture", "", "write the packets between the tunnel ends to `FILE`, for tshark")
	cmd.Flags().DurationVar(&d.load, "load", 2*time.Second, "duration of the 64-byte load")
	return cmd
}

// demo is one demonstration.
type demo struct {
	program string // warproute
	engine  string
	load    time.Duration
	capture string
	out     io.Writer

	top    *lab.Topology
	dir    string // of sockets and configurations
	router *lab.Process
	log    bytes.Buffer // output of the router
}

// check checks the flags.
func (d *demo) check() error {
	if d.load <= 0 {
		return fmt.Errorf("--load %v: write a positive duration", d.load)
	}
	router := config.Default(lab.LAN, lab.WAN)
	router.Engine = config.Engine(d.engine)
	return router.Check()
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

func (d *demo) run(ctx context.Context) (err error) {
	if d.dir, err = os.MkdirTemp("", "warproute-demo"); err != nil {
		return err
	}
	defer os.RemoveAll(d.dir)
	if d.top, err = lab.NewTopology(lab.VethOptions{}); err != nil {
		return fmt.Errorf("build the lab: %w", err)
	}
	defer d.top.Close()
	d.say("client %v, %v ── router ── server %v, %v", lab.Client4.Addr(), lab.Client6.Addr(), lab.Server4.Addr(), lab.Server6.Addr())
	d.say("three namespaces, two veth pairs, Linux's own forwarding off\n")

	if err := d.startRouter(ctx); err != nil {
		return err
	}
	defer func() { _ = d.router.Stop(5 * time.Second) }()
	var failed []error
	for _, step := range d.steps() {
		if ctx.Err() != nil {
			return fmt.Errorf("demo: %w", context.Cause(ctx))
		}
		result, err := step.do(ctx)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", step.name, err))
			result = "FAILED: " + err.Error()
		}
		d.say("  %-23s %s", step.name, result)
	}
	if err := d.report(ctx); err != nil {
		failed = append(failed, err)
	}
	if err := d.router.Stop(5 * time.Second); err != nil {
		failed = append(failed, fmt.Errorf("stop the router: %w", err))
	}
	if i := bytes.Index(d.log.Bytes(), []byte("stopped:")); i >= 0 {
		d.say("%s", d.log.Bytes()[i:])
	}
	if len(failed) > 0 {
		d.say("output of the router:\n%s", d.log.Bytes())
		return errors.Join(failed...)
	}
	return d.tunnel(ctx)
}

func (d *demo) socket() string { return filepath.Join(d.dir, "control.sock") }

// startRouter starts `warproute run` in the router's namespace and waits until it forwards.
func (d *demo) startRouter(ctx context.Context) error {
	cmd := exec.Command(d.program, "run", "--port", lab.LAN, "--port", lab.WAN, "--engine", d.engine, "--socket", d.socket(), "--metrics", "none")
	cmd.Stdout, cmd.Stderr = &d.log, &d.log
	var err error
	if d.router, err = d.top.Router.Start(cmd); err != nil {
		return fmt.Errorf("start the router: %w", err)
	}
	e, err := awaitRouter(ctx, d.router, d.socket())
	if err != nil {
		_ = d.router.Stop(time.Second)
		return fmt.Errorf("start the router: %w\n%s", err, d.log.Bytes())
	}
	d.say("router: warproute run --port %s --port %s, engine %s (%s), %s on cores %v\n", lab.LAN, lab.WAN, e.Name, e.Description, cli.Count(e.Workers, "worker"), e.Cores)
	return nil
}

// awaitRouter waits until a router answers at its control socket.
func awaitRouter(ctx context.Context, router *lab.Process, path string) (e status.Engine, err error) {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		select {
		case <-router.Done():
			return e, errors.New("the router ended")
		default:
		}
		if err = socket.Get(ctx, path, "/engine", &e); err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return e, err
		}
	}
}

// digits formats a duration with three digits.
func digits(d time.Duration) string { return status.Nanoseconds(uint64(d)) }

// step is one test of the router.
type step struct {
	name string
	do   func(context.Context) (result string, err error)
}

func (d *demo) steps() []step {
	const bytes = 256 << 20
	ping := func(to netip.Prefix) func(context.Context) (string, error) {
		return func(context.Context) (string, error) {
			r, err := lab.Ping(d.top.Client, to.Addr(), lab.PingOptions{Count: 5})
			return fmt.Sprintf("%d of %d answered, round trip %s to %s", r.Received, r.Sent, digits(r.Min), digits(r.Max)), err
		}
	}
	tcp := func(to netip.Prefix) func(context.Context) (string, error) {
		return func(context.Context) (string, error) {
			r, err := lab.Transfer(d.top.Client, d.top.Server, to.Addr(), bytes, 60*time.Second)
			return fmt.Sprintf("%d MiB in %s, %.3g Gbit/s, contents equal", r.Bytes>>20, digits(r.Elapsed), r.BitsPerSecond()/1e9), err
		}
	}
	return []step{
		{"ping " + lab.Server4.Addr().String(), ping(lab.Server4)},
		{"ping " + lab.Server6.Addr().String(), ping(lab.Server6)},
		{"TCP over IPv4", tcp(lab.Server4)},
		{"TCP over IPv6", tcp(lab.Server6)},
		{"20,000 packets/s, IPv4", d.steady(lab.Client4, lab.Server4)},
		{"20,000 packets/s, IPv6", d.steady(lab.Client6, lab.Server6)},
		{"64 bytes, full rate", d.fullRate},
	}
}

// report prints the counters and latencies of the router.
func (d *demo) report(ctx context.Context) error {
	var ports []status.Port
	var stages []status.Latency
	if err := errors.Join(socket.Get(ctx, d.socket(), "/ports", &ports), socket.Get(ctx, d.socket(), "/latency", &stages)); err != nil {
		return fmt.Errorf("query the router: %w", err)
	}
	t := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\nport\tmode\treceived\ttransmitted\tdropped\t")
	for _, p := range ports {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t\n", p.Name, p.Mode, p.RxPackets, p.TxPackets, p.Dropped)
	}
	fmt.Fprintln(t, "\nstage\tp50\tp99\tp99.9\t")
	for _, s := range stages {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t\n", s.Stage, status.Nanoseconds(s.P50), status.Nanoseconds(s.P99), status.Nanoseconds(s.P999))
	}
	_ = t.Flush()
	d.say("")
	return nil
}

// steady sends packets at a low rate. All must arrive.
func (d *demo) steady(from, to netip.Prefix) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		r, err := d.send(ctx, gen.Traffic{Src: gen.Host(from.Addr()), Dst: gen.Host(to.Addr())}, gen.Options{Rate: 20_000, Duration: time.Second})
		if err != nil {
			return "", err
		}
		if r.Receive.Lost > 0 {
			return "", fmt.Errorf("%d of %d packets lost", r.Receive.Lost, r.Send.Packets)
		}
		l := r.Receive.Latency
		return fmt.Sprintf("all %d arrived, in order; one way p50 %s, p99 %s, p99.9 %s", r.Receive.Packets, digits(l.P50), digits(l.P99), digits(l.P999)), nil
	}
}

// fullRate sends at the maximum rate of a core. Loss is allowed.
func (d *demo) fullRate(ctx context.Context) (string, error) {
	r, err := d.send(ctx, gen.Traffic{Src: gen.Host(lab.Client4.Addr()), Dst: gen.Host(lab.Server4.Addr()), Size: 64}, gen.Options{Duration: d.load})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%.3g Mpps sent, %.3g Mpps arrived, in order; one way p50 %s, p99 %s",
		r.Send.PacketsPerSecond/1e6, r.Receive.PacketsPerSecond/1e6, digits(r.Receive.Latency.P50), digits(r.Receive.Latency.P99)), nil
}

// send sends traffic from the client to the server.
func (d *demo) send(ctx context.Context, t gen.Traffic, o gen.Options) (*gen.Report, error) {
	tx, err := openPort(d.top.Client, lab.ClientLink)
	if err != nil {
		return nil, err
	}
	defer tx.Close()
	rx, err := openPort(d.top.Server, lab.ServerLink)
	if err != nil {
		return nil, err
	}
	defer rx.Close()
	if t.DstMAC, err = d.top.Router.MAC(lab.LAN); err != nil {
		return nil, err
	}
	t.Flows = 64
	r, err := gen.Run(ctx, tx, rx, t, o)
	switch {
	case err != nil:
		return nil, err
	case r.Receive.Packets == 0:
		return nil, errors.New("no packet arrived")
	case r.Receive.Corrupted > 0 || r.Receive.Duplicates > 0 || r.Receive.Reordered > 0:
		return nil, fmt.Errorf("%d packets corrupted, %d duplicated, %d out of order", r.Receive.Corrupted, r.Receive.Duplicates, r.Receive.Reordered)
	}
	return r, nil
}

// openPort opens an interface of a namespace for the generator.
func openPort(ns *lab.Namespace, link string) (p *gen.Port, err error) {
	err = ns.Do(func() error {
		p, err = gen.OpenPort(link, 1)
		return err
	})
	return p, err
}
