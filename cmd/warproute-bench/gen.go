package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/gen"
	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/internal/cli"
)

// genFlags are the flags of gen.
type genFlags struct {
	ports                 []string
	receiveOnly, sendOnly bool
	src, dst              string
	srcMAC, dstMAC, rate  string
	arrival               string
	traffic               gen.Traffic
	options               gen.Options
	cores                 int
	out                   cli.Results
	maxLoss               float64
}

func newGenCommand() *cobra.Command {
	var f genFlags
	c := &cobra.Command{
		Use:   "gen --port IFACE[@NETNS] [--port IFACE[@NETNS]] --dst ADDR",
		Short: "Generate traffic and measure loss and latency",
		Long: `Send UDP packets on the first port, receive them on the second, or on the same if there is
only one, and report rate, loss, reordering, duplicates and latency.

Every packet has a flow, a sequence number and a timestamp, so losses are exact. With --rate
the timestamp is the time at which the packet was due, so a late generator hides nothing. A receiving
port takes all IP packets for its MAC address from Linux until gen ends, including those to
this host: do not use the interface of your login session.

  warproute-bench gen --port eth1 --port eth2 --dst 10.8.0.0/16 --flows 4096
  warproute-bench gen --port veth0@client --port veth1@server --dst 10.8.0.2 --rate 200k --max-loss 0
  warproute-bench gen --port eth1 --send-only --dst 10.8.0.2 --imix`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	fl := c.Flags()
	fl.StringArrayVarP(&f.ports, "port", "p", nil, "send on `IFACE[@NETNS]`; a second --port receives; NETNS is a name of ip netns")
	fl.BoolVar(&f.sendOnly, "send-only", false, "send without receiving")
	fl.BoolVar(&f.receiveOnly, "receive-only", false, "receive without sending, from another gen")
	fl.StringVar(&f.dst, "dst", "", "destination `ADDR`, or a prefix for several flows")
	fl.StringVar(&f.src, "src", "", "source `ADDR`, or a prefix (default: address of the port)")
	fl.StringVar(&f.dstMAC, "dst-mac", "", "`MAC` address to send to (default: the next hop's)")
	fl.StringVar(&f.srcMAC, "src-mac", "", "`MAC` address to send from (default: the port's)")
	fl.StringVar(&f.rate, "rate", "0", "`PACKETS` per second, such as 200k or 1.5M; 0 means the maximum")
	fl.StringVar(&f.arrival, "arrival", "constant", "`ARRIVAL` of packets with --rate: constant, poisson or burst:N")
	fl.IntVar(&f.traffic.Size, "size", 0, "frame size in `BYTES` with FCS (default 64, with IPv6 84)")
	fl.BoolVar(&f.traffic.IMIX, "imix", false, "frames of 64 (84), 594 and 1518 bytes, 7:4:1")
	fl.IntVar(&f.traffic.Flows, "flows", 1, "number of flows, with different source ports and addresses")
	fl.BoolVar(&f.traffic.Random, "random", false, "use addresses in random order")
	fl.Uint64Var(&f.traffic.Seed, "seed", 0, "seed of --random and of --arrival poisson")
	cli.CompleteValues(c, "arrival", "constant", "poisson", "burst:32")
	cli.CompletePorts(c, "port")
	fl.DurationVar(&f.options.Duration, "duration", 0, "`TIME` to send (default 10s, or until --count)")
	fl.Uint64Var(&f.options.Count, "count", 0, "number of packets to send")
	fl.DurationVar(&f.options.Warmup, "warmup", 0, "`TIME` to send before the measurement")
	fl.DurationVar(&f.options.Drain, "drain", gen.DefaultDrain, "`TIME` to wait for packets after the last one was sent")
	fl.IntVar(&f.cores, "cores", 1, "number of sending cores, and of receiving cores; each needs a queue of the port")
	f.out.AddFlags(c)
	fl.Float64Var(&f.maxLoss, "max-loss", 0, "exit with 1 if more than `PERCENT` of the packets are lost")
	return c
}

// run checks the flags, opens the ports, sends and reports.
func (f *genFlags) run(c *cobra.Command) error {
	if err := f.parse(); err != nil {
		return cli.UsageError(err)
	}
	if err := cli.RequirePrivileges(); err != nil {
		return err
	}
	rep, err := f.generate(c.Context())
	if err != nil {
		return err
	}
	if err := f.write(c, rep); err != nil {
		return err
	}
	if rep.Receive == nil {
		return nil
	}
	if rep.Receive.Packets == 0 && len(f.ports) == 1 && !f.receiveOnly {
		fmt.Fprintf(c.ErrOrStderr(), "no packet returned on %s: name the receiving port by a second --port, or use --send-only\n", f.ports[0])
	}
	if lost := rep.Receive.LossPercent; c.Flags().Changed("max-loss") && lost > f.maxLoss {
		return fmt.Errorf("%.4g %% of the packets were lost, more than --max-loss %v", lost, f.maxLoss)
	}
	return nil
}

// parse checks the flags.
func (f *genFlags) parse() (err error) {
	switch {
	case len(f.ports) == 0:
		return errors.New("gen needs --port IFACE")
	case len(f.ports) > 2:
		return errors.New("gen takes two ports at most: one to send on, one to receive on")
	case len(f.ports) == 2 && f.ports[0] == f.ports[1]:
		return fmt.Errorf("port %s is given twice; one --port sends and receives", f.ports[0])
	case len(f.ports) == 2 && (f.sendOnly || f.receiveOnly):
		return errors.New("--send-only and --receive-only take one port")
	case f.sendOnly && f.receiveOnly:
		return errors.New("--send-only and --receive-only exclude each other")
	case f.receiveOnly && f.dst != "":
		return errors.New("--dst does not apply to --receive-only")
	case !f.receiveOnly && f.dst == "":
		return errors.New("gen needs --dst ADDR")
	case f.cores < 1:
		return fmt.Errorf("--cores %d: write 1 or more", f.cores)
	case !(f.maxLoss >= 0 && f.maxLoss <= 100): // also rejects NaN
		return fmt.Errorf("--max-loss %v: write percent, 0 to 100", f.maxLoss)
	}
	if f.options.Rate, err = parseRate("rate", f.rate); err != nil {
		return err
	}
	if f.options.Arrival, err = load.ParseArrival(f.arrival); err != nil {
		return fmt.Errorf("--arrival %w", err)
	}
	f.options.Seed = f.traffic.Seed
	if f.options.Duration == 0 && f.options.Count == 0 {
		f.options.Duration = 10 * time.Second
	}
	if err := f.options.Check(); err != nil || f.receiveOnly {
		return err
	}
	if f.traffic.Dst, err = parseHosts("--dst", f.dst); err != nil {
		return err
	}
	if f.src != "" {
		if f.traffic.Src, err = parseHosts("--src", f.src); err != nil {
			return err
		}
	}
	for _, m := range []struct {
		flag, text string
		to         *net.HardwareAddr
	}{{"--dst-mac", f.dstMAC, &f.traffic.DstMAC}, {"--src-mac", f.srcMAC, &f.traffic.SrcMAC}} {
		if m.text == "" {
			continue
		}
		if *m.to, err = net.ParseMAC(m.text); err != nil || len(*m.to) != 6 {
			return fmt.Errorf("%s %s: write six bytes such as 02:00:00:00:00:01", m.flag, m.text)
		}
	}
	return f.traffic.Check()
}

// parseRate parses a flag's number with the suffix k, M or G.
func parseRate(flag, s string) (float64, error) {
	unit := 1.0
	number := strings.TrimRight(s, "kMG")
	if suffix := s[len(number):]; suffix != "" {
		unit = map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9}[suffix]
	}
	rate, err := strconv.ParseFloat(number, 64)
	if err != nil || unit == 0 {
		return 0, fmt.Errorf("--%s %s: write packets per second, such as 50000, 200k or 1.5M", flag, s)
	}
	return rate * unit, nil
}

// parseHosts parses an address or a prefix.
func parseHosts(flag, s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return gen.Host(a.Unmap()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("%s %s: write an address or a prefix, such as 192.0.2.1 or 2001:db8::/64", flag, s)
	}
	return p, nil
}

// generate opens the ports and sends.
func (f *genFlags) generate(ctx context.Context) (*gen.Report, error) {
	first, err := openGenPort(f.ports[0], f.cores, f.completeAt)
	if err != nil {
		return nil, err
	}
	defer first.Close()
	switch {
	case f.receiveOnly:
		return gen.Run(ctx, nil, first, f.traffic, f.options)
	case f.sendOnly:
		return gen.Run(ctx, first, nil, f.traffic, f.options)
	case len(f.ports) == 1:
		return gen.Run(ctx, first, first, f.traffic, f.options)
	}
	second, err := openGenPort(f.ports[1], f.cores, nil)
	if err != nil {
		return nil, err
	}
	defer second.Close()
	return gen.Run(ctx, first, second, f.traffic, f.options)
}

// write prints the report.
func (f *genFlags) write(c *cobra.Command, rep *gen.Report) error {
	if err := rep.WriteText(f.out.Text(c)); err != nil {
		return err
	}
	return f.out.Write(c, rep)
}
