package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	bench "github.com/warproute/warproute/bench/ipsec"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/suite"
)

// ipsecSweep is the flags of a sweep: every combination is measured.
type ipsecSweep struct {
	bench.Options
	dmaFlags
	suites, sizes     []string
	sas               []int
	direction, family string
}

func newIPsecCommand() *cobra.Command {
	s := ipsecSweep{}
	var out cli.Results
	cmd := &cobra.Command{
		Use:   "ipsec",
		Short: "Measure an IPsec gateway on memory ports",
		Long: `Measure an IPsec gateway on memory ports: cleartext in and ESP out, or the reverse, in
tunnels that each have their own key and policies. Every packet of a first run is compared
byte by byte with the result of Go's crypto packages, sequence numbers must be unique and
ascending, and replayed packets must be refused, before anything is timed.

Sizes and Gbit/s are those of inner IP packets. Packets to decrypt are encrypted in advance,
--ring MiB per worker, and played once, so that the replay window is active. With --window 0,
or fewer SAs than workers, a smaller set is played repeatedly.

Emulated NICs copy packets to the router's frames: those to encrypt from a cache, those to
decrypt from memory, which is slower, so their limits differ. With --dma none packets are in the
frames before a round, --memory MiB per worker, and each is used once.

With --engine gpu the CPU engine is measured too, on one core and on all cores that emulate
no NIC.

A round has a warm-up, a tenth of --duration, but 30 to 100 ms (--duration itself, if that is
shorter). If packets are played once, it ends after 10 to 30 % of them, and the round after 90 %
at the latest.

Packets arrive as fast as the router takes them, so it has one lane: with --lanes default it
takes more than the engine processes, and drops the rest. Load measures the default lanes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := s.options(cmd)
			if err != nil {
				return cli.UsageError(err)
			}
			progress := cli.NewProgress(cmd.ErrOrStderr())
			defer progress.Done()
			var results []*bench.Result
			for i, o := range all {
				progress.Step("measurement %d of %d: %s, %s, %v bytes, %d rounds of %v", i+1, len(all), o.Engine, o.Suite, o.Sizes, o.Rounds, o.Duration)
				r, err := bench.Run(o)
				if err != nil {
					return err
				}
				results = append(results, r)
			}
			progress.Done()
			writeIPsec(out.Text(cmd), results)
			return out.Write(cmd, results)
		},
	}
	addEngineFlag(cmd, &s.Engine)
	addTableFlags(cmd, &s.Table, &s.Routes, &s.Seed)
	addFamilyFlag(cmd, &s.family, "4")
	addTestbedFlags(cmd, &s.Testbed)
	s.dmaFlags.addFlags(cmd)
	addRoundFlags(cmd, &s.Rounds, &s.Duration, time.Second)
	f := cmd.Flags()
	f.StringSliceVar(&s.suites, "suite", []string{"aes128gcm16"}, "cipher suites by `NAME`, or all")
	f.StringSliceVar(&s.sizes, "size", []string{"64", "512", "1408"}, "inner packet sizes in `BYTES`, or imix (64, 576 and 1408, 7:4:1)")
	f.IntSliceVar(&s.sas, "sas", []int{1000}, "number of security associations")
	f.StringVar(&s.direction, "direction", "both", "`DIRECTION`: encrypt, decrypt or both")
	f.IntVar(&s.Window, "window", 1024, "replay window in packets; 0 means none")
	addLanesFlag(cmd, &s.Testbed.Lanes, testbed.OneLane)
	f.BoolVar(&s.Only, "engine-only", false, "measure the engine only: no CPU engine beside a GPU, no null engine or device, no cipher alone")
	f.IntVar(&s.Ring, "ring", 256, "`MIB` of packets to decrypt per worker and round")
	cli.CompleteValues(cmd, "suite", append(suiteNames(), "all")...)
	cli.CompleteValues(cmd, "direction", "encrypt", "decrypt", "both")
	out.AddFlags(cmd)
	return cmd
}

func suiteNames() (names []string) {
	for i := range suite.All {
		names = append(names, suite.All[i].Name)
	}
	return names
}

// options returns the measurements of a sweep, or a usage error.
func (s *ipsecSweep) options(cmd *cobra.Command) (all []bench.Options, err error) {
	ipv6, err := families(s.family)
	if err := cmp.Or(err, checkEngine(s.Engine), checkTestbed(cmd, s.Engine, &s.Testbed), s.dmaFlags.check(cmd, &s.Testbed), checkTable(s.Table, &s.Routes), checkRounds(s.Rounds, s.Duration),
		checkNumbers(number{"ring", s.Ring, 1, bench.MaxRing}, number{"window", s.Window, 0, ipsec.MaxReplayWindow})); err != nil {
		return nil, err
	}
	directions, ok := map[string][]ipsec.Direction{"encrypt": {ipsec.Out}, "decrypt": {ipsec.In}, "both": {ipsec.Out, ipsec.In}}[s.direction]
	if !ok {
		return nil, fmt.Errorf("--direction %s: write encrypt, decrypt or both", s.direction)
	}
	if len(s.suites) == 0 || len(s.sizes) == 0 {
		return nil, errors.New("--suite and --size need a value")
	}
	if slices.Equal(s.suites, []string{"all"}) {
		s.suites = suiteNames()
	}
	for _, name := range s.suites {
		if _, err := suite.ByName(name); err != nil {
			return nil, fmt.Errorf("--suite: %w", err)
		}
	}
	for _, n := range s.sas {
		if err := checkNumbers(number{"sas", n, 1, bench.MaxSAs}); err != nil {
			return nil, err
		}
	}
	var mixes [][]int
	for _, text := range s.sizes {
		mix, err := parseSize(text)
		if err != nil {
			return nil, err
		}
		mixes = append(mixes, mix)
	}
	for _, s.IPv6 = range ipv6 {
		for _, s.Suite = range s.suites {
			for _, s.Direction = range directions {
				for _, s.Sizes = range mixes {
					for _, s.SAs = range s.sas {
						all = append(all, s.withCPU()...)
					}
				}
			}
		}
	}
	return all, nil
}

// parseSize parses a value of --size.
func parseSize(text string) ([]int, error) {
	if text == "imix" {
		return bench.IMIX, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < bench.MinSize || n > bench.MaxSize {
		return nil, fmt.Errorf("--size %s: write imix, or %d to %d bytes", text, bench.MinSize, bench.MaxSize)
	}
	return []int{n}, nil
}

// withCPU returns a measurement and, if it is of a GPU, the same with the CPU engine.
func (s *ipsecSweep) withCPU() []bench.Options {
	all := []bench.Options{s.Options}
	if s.Engine == "gpu" && !s.Only {
		for _, workers := range slices.Compact([]int{1, max(1, runtime.NumCPU()-s.Testbed.NICs)}) {
			o := s.Options
			o.Engine, o.Testbed.Workers, o.Testbed.Chunks, o.Testbed.GPUs = "cpu", workers, 1, 0
			o.Testbed.NICs = min(o.Testbed.NICs, maxNICs*workers) // more would have no queue
			all = append(all, o)
		}
	}
	return all
}

func writeIPsec(w io.Writer, results []*bench.Result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "engine\tfamily\tsuite\tdirection\tbytes\tSAs\twindow\tworkers\tNICs\tDMA\tGPUs\tms\tGbit/s\tMpps\tlimit\tPCIe\thost\tns/packet\tCPU\tengine\tcrypto\tshare\thot\tp50 µs\tp99 µs\t")
	for _, r := range results {
		size, share, window := "imix", "-", "-"
		if len(r.Sizes) == 1 {
			size = strconv.Itoa(r.Sizes[0])
		}
		if r.Share > 0 {
			share = fmt.Sprintf("%.2f", r.Share)
		}
		if r.Direction == "decrypt" {
			window = strconv.Itoa(r.Window)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t%d\t%s\t%d\t%.1f\t%.2f\t%.3f\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t%.0f\t%.1f\t%.1f\t\n",
			r.Engine, r.Family, r.Suite, r.Direction, size, r.SAs, window, r.Workers, r.NICs, r.DMA, r.GPUs,
			1e3*r.Seconds, r.Gbps, r.Mpps, optional(r.Limit), optional(r.PCIeLimit), optional(r.Host), r.NsPacket, r.CPU, r.Stages["engine"], r.Library, share, r.Hot, r.P50, r.P99)
	}
	_ = t.Flush()
	fmt.Fprint(w, `Median of rounds, after verifying every packet of a first run byte by byte. Bytes and Gbit/s are of inner IP packets.
DMA: copy, if a core copies packets to the router's memory, or none, if they are there before a round.
ms: the time of the median round that was measured. A round ends early if packets are played once and run out: raise --memory (--dma none), and to decrypt --ring, too.
limit: Mpps of the same loop with a null engine. PCIe: Mpps of GPUs that only read and write as much in host memory.
host: Mpps of the same loop with a null device, whose packets to decrypt are cleartext.
ns/packet: of one worker; without emulated NICs it includes the copies of the ports.
CPU: ns per packet of all workers, ports included, without idle polls.
engine: ns per packet from Submit to Done; with the CPU engine: checks, policies, SA, ESP, route, rewrite.
crypto: ns per packet of an engine that only encrypts or decrypts with Go's crypto packages. share: crypto / engine.
hot: crypto with one key and one packet, in the L1 cache.
p50, p99: latency of a chunk, from its first packet received to its last one transmitted, at this rate.
`)
}
