package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	bench "github.com/warproute/warproute/bench/ipsec"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/suite"
)

// ipsecSweep is what a command line asks for: every combination is a measurement.
type ipsecSweep struct {
	bench.Options
	suites, sizes     []string
	sas               []int
	direction, family string
}

func newBenchIPsecCommand() *cobra.Command {
	s := ipsecSweep{}
	var jsonFile string
	cmd := &cobra.Command{
		Use:   "ipsec",
		Short: "The whole way of a packet through an IPsec gateway, on memory ports",
		Long: `IPsec runs a gateway on ports that are memory: packets come in in clear and leave
as ESP, or the reverse, in tunnels that each have a key and policies of their own.
Before anything is timed, every packet of a first run is compared byte by byte with
what Go's crypto packages make of it; sequence numbers have to be unique and to
increase, and packets that are played again have to be refused.

Sizes and Gbit/s are of inner IP packets. To decrypt, packets are prepared, --ring MiB
a worker, and played once, so that the replay window is at work; with --window 0, or
fewer associations than workers, some are played again and again instead. Frames to
encrypt are few enough for a cache, and a ring to decrypt is not: each has a limit of
its own.

With --engine gpu the CPU engine is measured beside it, on one core and on all that are not cards.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkGPUs(cmd, s.Engine, &s.Bed.GPUs, s.Bed.Workers); err != nil {
				return usageError(err)
			}
			all, err := s.options()
			if err != nil {
				return usageError(err)
			}
			var results []*bench.Result
			for _, o := range all {
				r, err := bench.Run(o)
				if err != nil {
					return err
				}
				results = append(results, r)
			}
			writeIPsec(textOf(cmd, jsonFile), results)
			return writeJSON(cmd, jsonFile, results)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Engine, "engine", "cpu", "`ENGINE` that decides: cpu or gpu")
	f.StringSliceVar(&s.suites, "suite", []string{"aes128gcm16"}, "suites by `NAME`, or all")
	f.StringSliceVar(&s.sizes, "size", []string{"64", "512", "1408"}, "`BYTES` of inner IP packets, or imix: 64, 576 and 1408, 7:4:1")
	f.IntSliceVar(&s.sas, "sas", []int{1000}, "security associations: tunnels that packets are of in turn")
	f.StringVar(&s.direction, "direction", "both", "encrypt, decrypt or both")
	f.StringVar(&s.family, "family", "4", "4, 6 or both: inside and outside of tunnels")
	f.IntVar(&s.Window, "window", 1024, "replay window of inbound associations; 0 is none")
	f.IntVar(&s.Ring, "ring", 256, "`MIB` of prepared packets a worker")
	f.StringVar(&s.Table, "table", "random", "random, real, internet, nested, adversarial or dense")
	f.IntVar(&s.Routes, "routes", 0, "in the table; 0 is 10,000 random ones, or as many as the real table has")
	f.IntVar(&s.Bed.MaxPackets, "batch", 256, "packets of a chunk")
	f.IntVar(&s.Bed.Chunks, "chunks", 0, "chunks that a worker may have in flight; 0 is 1 for the CPU and 8 for a GPU")
	f.IntVar(&s.Bed.Workers, "workers", 1, "workers, each on a core of its own")
	f.IntVar(&s.Bed.Cards, "cards", 0, "cores besides that play the workers' network cards, as of bench forward; 0: the workers' cores do")
	addGPUs(cmd, &s.Bed.GPUs)
	addShadow(cmd, &s.Bed.Shadow)
	f.DurationVar(&s.Duration, "duration", time.Second, "of a round, where packets are played without end")
	f.IntVar(&s.Rounds, "rounds", 5, "of which the median counts")
	f.Uint64Var(&s.Seed, "seed", 1, "of routes, keys and packets")
	f.StringVar(&jsonFile, "json", "", "also write the results as JSON to `FILE`; -: print it, and nothing else")
	return cmd
}

// options returns the measurements, or what is wrong with the flags.
func (s *ipsecSweep) options() (all []bench.Options, err error) {
	families, ok := map[string][]bool{"both": {false, true}, "4": {false}, "6": {true}}[s.family]
	if !ok {
		return nil, fmt.Errorf("--family %s: it is 4, 6 or both", s.family)
	}
	directions, ok := map[string][]ipsec.Direction{"encrypt": {ipsec.Out}, "decrypt": {ipsec.In}, "both": {ipsec.Out, ipsec.In}}[s.direction]
	if !ok {
		return nil, fmt.Errorf("--direction %s: it is encrypt, decrypt or both", s.direction)
	}
	if len(s.suites) == 0 || len(s.sizes) == 0 {
		return nil, errors.New("--suite and --size: each wants a value")
	}
	if slices.Equal(s.suites, []string{"all"}) {
		s.suites = nil
		for i := range suite.All {
			s.suites = append(s.suites, suite.All[i].Name)
		}
	}
	for _, name := range s.suites {
		if _, err := suite.ByName(name); err != nil {
			return nil, fmt.Errorf("--suite: %w", err)
		}
	}
	var mixes [][]int
	for _, text := range s.sizes {
		mix, err := sizesOf(text)
		if err != nil {
			return nil, err
		}
		mixes = append(mixes, mix)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	for _, s.IPv6 = range families {
		for _, s.Suite = range s.suites {
			for _, s.Direction = range directions {
				for _, s.Sizes = range mixes {
					for _, s.SAs = range s.sas {
						all = append(all, s.beside()...)
					}
				}
			}
		}
	}
	return all, nil
}

// sizesOf reads a value of --size.
func sizesOf(text string) ([]int, error) {
	if text == "imix" {
		return bench.IMIX, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < bench.MinSize || n > bench.MaxSize {
		return nil, fmt.Errorf("--size %s: write imix, or %d to %d bytes", text, bench.MinSize, bench.MaxSize)
	}
	return []int{n}, nil
}

// check checks the other flags and puts defaults in.
func (s *ipsecSweep) check() error {
	if s.Engine != "cpu" && s.Engine != "gpu" {
		return fmt.Errorf("--engine %s: write cpu or gpu", s.Engine)
	}
	for _, n := range s.sas {
		if n < 1 || n > bench.MaxSAs {
			return fmt.Errorf("--sas %d: 1 to %d are possible", n, bench.MaxSAs)
		}
	}
	if s.Window < 0 || s.Window > ipsec.MaxReplayWindow {
		return fmt.Errorf("--window %d: 0 to %d packets are possible", s.Window, ipsec.MaxReplayWindow)
	}
	if s.Table != "random" && !slices.Contains(routes.Names(), s.Table) {
		return fmt.Errorf("--table %s: it is random or one of %v", s.Table, routes.Names())
	}
	if s.Routes < 0 || s.Routes > routes.MaxRoutes {
		return fmt.Errorf("--routes %d: 1 to %d are possible", s.Routes, routes.MaxRoutes)
	}
	if s.Table == "random" && s.Routes == 0 {
		s.Routes = 10_000
	}
	if s.Bed.Chunks == 0 {
		s.Bed.Chunks = map[string]int{"cpu": 1, "gpu": 8}[s.Engine]
	}
	if err := checkRounds(s.Rounds, s.Duration); err != nil {
		return err
	}
	return checkNumbers(
		number{"chunks", s.Bed.Chunks, 1, maxChunks}, number{"batch", s.Bed.MaxPackets, 1, config.MaxPackets},
		number{"workers", s.Bed.Workers, 1, maxWorkers}, number{"ring", s.Ring, 1, bench.MaxRing},
		number{"cards", s.Bed.Cards, 0, maxCards * s.Bed.Workers}, number{"shadow", s.Bed.Shadow, 0, math.MaxInt32},
	)
}

// beside returns a measurement and, if it is of a GPU, those to compare it with.
func (s *ipsecSweep) beside() []bench.Options {
	all := []bench.Options{s.Options}
	if s.Engine == "gpu" {
		for _, workers := range slices.Compact([]int{1, max(1, runtime.NumCPU()-s.Bed.Cards)}) {
			o := s.Options
			o.Engine, o.Bed.Workers, o.Bed.Chunks, o.Bed.GPUs = "cpu", workers, 1, 0
			o.Bed.Cards = min(o.Bed.Cards, maxCards*workers) // as others would have no queue
			all = append(all, o)
		}
	}
	return all
}

func writeIPsec(w io.Writer, results []*bench.Result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "engine\tfamily\tsuite\tdirection\tbytes\tSAs\twindow\tworkers\tcards\tgpus\tGbit/s\tMpps\tlimit\tin place\thost\tns/packet\tengine\tcrypto\tshare\thot\tp50 µs\tp99 µs\t")
	for _, r := range results {
		size, share := "imix", "-"
		if len(r.Sizes) == 1 {
			size = strconv.Itoa(r.Sizes[0])
		}
		if r.Share > 0 {
			share = fmt.Sprintf("%.2f", r.Share)
		}
		window := "-"
		if r.Direction == "decrypt" {
			window = strconv.Itoa(r.Window)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t%d\t%d\t%.2f\t%.3f\t%.3f\t%s\t%s\t%.0f\t%.0f\t%.0f\t%s\t%.0f\t%.1f\t%.1f\t\n",
			r.Engine, r.Family, r.Suite, r.Direction, size, r.SAs, window, r.Workers, r.Cards, r.GPUs,
			r.Gbps, r.Mpps, r.Limit, mpps(r.InPlace), mpps(r.Host), r.NsPacket, r.Stages["engine"], r.Library, share, r.Hot, r.P50, r.P99)
	}
	_ = t.Flush()
	fmt.Fprint(w, strings.TrimLeft(`
Medians of rounds, after verifying every packet of a first run byte by byte. Bytes and Gbit/s are of inner IP packets.
limit: Mpps of the same loop, ports and packets with no engine. in place: Mpps of the GPUs, where they read and rewrite as much, and do nothing else.
host: Mpps of the same loop, ports and packets with a GPU that is done at once, as what it is to open is in clear already.
ns/packet: of one worker, the ports' copies included, if there are no cards.
engine: ns a packet from Submit to Done, on a CPU all that a gateway does: checks, policies, association, ESP, route, rewriting.
crypto: the same of an engine that only has Go's crypto packages seal or open the same bytes, frames and keys. share: crypto by engine.
hot: ns of the same with one key and one packet, again and again, in the first cache.
p50, p99: a chunk, from its first packet received to its last one sent, at this rate.
`, "\n"))
}
