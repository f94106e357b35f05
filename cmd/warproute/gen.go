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
)

// genFlags are the flags of gen, as they are typed.
type genFlags struct {
	ports                 []string
	receiveOnly, sendOnly bool
	src, dst              string
	srcMAC, dstMAC, rate  string
	traffic               gen.Traffic
	options               gen.Options
	cores                 int
	json                  string
	maxLoss               float64
}

func newGenCommand() *cobra.Command {
	var f genFlags
	c := &cobra.Command{
		Use:   "gen --port IFACE[@NETNS] [--port IFACE[@NETNS]] --dst ADDR",
		Short: "Generate traffic and measure what comes back",
		Long: `Gen sends UDP packets on the first port, receives on the second, or on the same
where there is only one, and reports rate, loss, order, duplicates and latency.

Every packet says which flow it is of, its number in it, and when it was sent, so
what is lost is counted packet by packet. A port that receives takes all IP packets
for its MAC address from Linux until gen ends, those to its own addresses, too: do
not use the one that you are logged in by.

  warproute gen --port eth1 --port eth2 --dst 10.8.0.0/16 --flows 4096
  warproute gen --port veth0@client --port veth1@server --dst 10.8.0.2 --rate 200k --max-loss 0
  warproute gen --port eth1 --send-only --dst 10.8.0.2 --imix`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	fl := c.Flags()
	fl.StringArrayVarP(&f.ports, "port", "p", nil, "send on `IFACE[@NETNS]`; given twice, receive on the second; NETNS is a name of `ip netns`")
	fl.BoolVar(&f.sendOnly, "send-only", false, "receive nothing")
	fl.BoolVar(&f.receiveOnly, "receive-only", false, "send nothing: measure what another gen sends")
	fl.StringVar(&f.dst, "dst", "", "destination `ADDR`, or a prefix to spread the flows over")
	fl.StringVar(&f.src, "src", "", "source `ADDR`, or a prefix (default: the port's address)")
	fl.StringVar(&f.dstMAC, "dst-mac", "", "`MAC` address to send to (default: ask Linux for the next hop's)")
	fl.StringVar(&f.srcMAC, "src-mac", "", "`MAC` address to send from (default: the port's)")
	fl.StringVar(&f.rate, "rate", "0", "`packets` per second, such as 200k or 1.5M; 0: as fast as the port takes them")
	fl.IntVar(&f.traffic.Size, "size", 0, "`bytes` of a frame with FCS; 0: the least, 64, or 84 with IPv6")
	fl.BoolVar(&f.traffic.IMIX, "imix", false, "frames of 64 (84), 594 and 1518 bytes, 7:4:1, in place of --size")
	fl.IntVar(&f.traffic.Flows, "flows", 1, "`number` of flows, which differ in source port, and address where there are several")
	fl.BoolVar(&f.traffic.Random, "random", false, "spread addresses in no order")
	fl.Uint64Var(&f.traffic.Seed, "seed", 0, "`number` of the order with --random")
	fl.DurationVar(&f.options.Duration, "duration", 0, "`time` to send for (default 10s, or until --count)")
	fl.Uint64Var(&f.options.Count, "count", 0, "`packets` to send")
	fl.DurationVar(&f.options.Warmup, "warmup", 0, "`time` to send for before, not counted")
	fl.DurationVar(&f.options.Drain, "drain", gen.DefaultDrain, "`time` to wait for packets after the last was sent")
	fl.IntVar(&f.cores, "cores", 1, "`number` of cores to send on, and as many to receive on; each needs a queue of the port")
	fl.StringVar(&f.json, "json", "", "also write the report as JSON to `FILE`; -: print it, and nothing else")
	fl.Float64Var(&f.maxLoss, "max-loss", 0, "exit with 1 if more is lost, in `percent` (default: any loss is a result)")
	return c
}

// run checks what was typed, opens the ports, sends and reports.
func (f *genFlags) run(c *cobra.Command) error {
	if err := f.parse(); err != nil {
		return usageError(err)
	}
	if err := requirePrivileges(); err != nil {
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
		fmt.Fprintf(c.ErrOrStderr(), "nothing came back on %s: name the port where it should arrive by a second --port, or give --send-only\n", f.ports[0])
	}
	if lost := rep.Receive.LossPercent; c.Flags().Changed("max-loss") && lost > f.maxLoss {
		return fmt.Errorf("%.4g %% of the packets were lost, more than --max-loss %v", lost, f.maxLoss)
	}
	return nil
}

// parse refuses what is wrong whatever the ports.
func (f *genFlags) parse() (err error) {
	switch {
	case len(f.ports) == 0:
		return errors.New("gen needs --port IFACE")
	case len(f.ports) > 2:
		return errors.New("gen takes two ports at most: one to send on, one to receive on")
	case len(f.ports) == 2 && f.ports[0] == f.ports[1]:
		return fmt.Errorf("port %s is given twice; once is enough to send and receive on it", f.ports[0])
	case len(f.ports) == 2 && (f.sendOnly || f.receiveOnly):
		return errors.New("--send-only and --receive-only take one port")
	case f.sendOnly && f.receiveOnly:
		return errors.New("--send-only and --receive-only leave nothing to do")
	case f.receiveOnly && f.dst != "":
		return errors.New("--receive-only sends nothing: leave --dst out")
	case !f.receiveOnly && f.dst == "":
		return errors.New("gen needs --dst ADDR, the destination of the packets")
	case f.cores < 1:
		return fmt.Errorf("--cores %d: take 1 or more", f.cores)
	case !(f.maxLoss >= 0 && f.maxLoss <= 100): // NaN neither
		return fmt.Errorf("--max-loss %v: write percent, 0 to 100", f.maxLoss)
	}
	if f.options.Rate, err = parseRate(f.rate); err != nil {
		return err
	}
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

// parseRate reads a number with k, M or G after it.
func parseRate(s string) (float64, error) {
	unit := 1.0
	number := strings.TrimRight(s, "kMG")
	if suffix := s[len(number):]; suffix != "" {
		unit = map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9}[suffix]
	}
	rate, err := strconv.ParseFloat(number, 64)
	if err != nil || unit == 0 {
		return 0, fmt.Errorf("--rate %s: write packets per second, such as 50000, 200k or 1.5M", s)
	}
	return rate * unit, nil
}

// parseHosts reads an address or a prefix.
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

// generate opens the ports and runs.
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

// write prints the report and writes it where --json says.
func (f *genFlags) write(c *cobra.Command, rep *gen.Report) error {
	if err := rep.WriteText(textOf(c, f.json)); err != nil {
		return err
	}
	return writeJSON(c, f.json, rep)
}
