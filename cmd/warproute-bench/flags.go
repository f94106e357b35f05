package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/internal/routes"
)

// Limits of flags.
const (
	maxRounds  = 1000
	maxWorkers = 256
	maxNICs    = testbed.Ports // per worker: one for each of its queues
	maxChunks  = 64
	maxCount   = 10_000_000 // chunks of a size

	maxChunkBytes = 4 << 20
)

// addEngineFlag adds --engine.
func addEngineFlag(c *cobra.Command, engine *string) {
	c.Flags().StringVar(engine, "engine", "cpu", "`ENGINE`: cpu or gpu")
	cli.CompleteValues(c, "engine", "cpu", "gpu")
}

func checkEngine(engine string) error {
	if engine != "cpu" && engine != "gpu" {
		return fmt.Errorf("--engine %s: write cpu or gpu", engine)
	}
	return nil
}

// addFamilyFlag adds --family. The default is the first of the values.
func addFamilyFlag(c *cobra.Command, family *string, values ...string) {
	c.Flags().StringVar(family, "family", values[0], "address `FAMILY`: 4, 6 or both")
	cli.CompleteValues(c, "family", "4", "6", "both")
}

// families returns, for each family of the flag, whether it is IPv6.
func families(flag string) ([]bool, error) {
	all, ok := map[string][]bool{"both": {false, true}, "4": {false}, "6": {true}}[flag]
	if !ok {
		return nil, fmt.Errorf("--family %s: write 4, 6 or both", flag)
	}
	return all, nil
}

// addTableFlags adds the flags of the routing table of a testbed.
func addTableFlags(c *cobra.Command, table *string, n *int, seed *uint64) {
	names := append([]string{"random"}, routes.Names()...)
	c.Flags().StringVar(table, "table", "random", "routing `TABLE`: random, real, internet, nested, adversarial or dense")
	c.Flags().IntVar(n, "routes", 0, "number of routes (default: 10,000 random ones, or the size of the real table)")
	c.Flags().Uint64Var(seed, "seed", 1, "seed of routes, keys and packets")
	cli.CompleteValues(c, "table", names...)
}

// checkTable checks these flags and sets the default number of routes.
func checkTable(table string, n *int) error {
	if table != "random" && !slices.Contains(routes.Names(), table) {
		return fmt.Errorf("--table %s: write random or one of %v", table, routes.Names())
	}
	if *n < 0 || *n > routes.MaxRoutes {
		return fmt.Errorf("--routes %d: 1 to %d are possible", *n, routes.MaxRoutes)
	}
	if table == "random" && *n == 0 {
		*n = 10_000
	}
	return nil
}

// addTestbedFlags adds the flags of a testbed.
func addTestbedFlags(c *cobra.Command, o *testbed.Config) {
	f := c.Flags()
	f.IntVar(&o.MaxPackets, "batch", 256, "packets per chunk")
	f.IntVar(&o.Chunks, "chunks", 0, "chunks in flight per worker (default: 1 with the CPU engine, 8 with a GPU, 32 in a gateway)")
	f.IntVar(&o.MaxBytes, "chunk-bytes", 0, "bytes per chunk; 0 means the router's default")
	f.IntVar(&o.Workers, "workers", 1, "number of workers, each on its own core")
	f.IntVar(&o.Busy, "busy", 0, "offer packets to the first `N` workers; 0 means all")
	f.IntVar(&o.NICs, "nics", 0, "extra cores that emulate NIC DMA, up to 2 per worker; 0 means the workers' cores")
	f.IntVar(&o.NICs, "cards", 0, "")
	_ = f.MarkDeprecated("cards", "use --nics")
	f.IntVar(&o.GPUs, "gpus", 1, "number of GPUs; workers are assigned round-robin")
	f.IntVar(&o.Shadow, "shadow", 0, "compare one in `N` chunks of a GPU with the CPU's result; 0 means none")
	addTileFlags(c, o)
}

// addLanesFlag adds --lanes.
func addLanesFlag(c *cobra.Command, l *testbed.Lanes, value testbed.Lanes) {
	c.Flags().StringVar((*string)(l), "lanes", string(value), "`LANES` of a gateway: default, queues (without shares of a GPU) or none")
	cli.CompleteValues(c, "lanes", string(testbed.DefaultLanes), string(testbed.QueueLanes), string(testbed.OneLane))
}

// addTileFlags adds the flags of a GPU's tiles.
func addTileFlags(c *cobra.Command, o *testbed.Config) {
	f := c.Flags()
	f.IntVar(&o.PlainTile, "tile-packets", 0, "divide a GPU's chunks without ESP into tiles of `N` packets; 0 means the router's default")
	f.IntVar(&o.SecuredBatch, "batch-bytes", 0, "give a GPU's warps `N` bytes of ESP packets and keys at a time; 0 means the router's default")
	f.IntVar(&o.Multiprocessors, "multiprocessors", 0, "use `N` multiprocessors of each GPU, rounded up to what its driver can divide; 0 means all")
	f.IntVar(&o.SharedLimit, "shared-limit", 0, "use `BYTES` of shared memory per block, as a smaller GPU has (L4: 101376); 0 means all")
	f.IntVar(&o.Warps, "warps", 0, "use `N` warps per block, up to the kernel's (8 with IPsec); 0 means the router's choice")
}

// checkTestbed checks these flags and sets defaults. Without a GPU engine there are no GPUs.
func checkTestbed(c *cobra.Command, engine string, o *testbed.Config) error {
	switch {
	case engine == "gpu" && o.GPUs > max(1, o.Workers):
		return fmt.Errorf("--gpus %d: each needs a worker; set --workers %d or more", o.GPUs, o.GPUs)
	case engine == "gpu":
		if err := checkNumbers(number{"gpus", o.GPUs, 1, maxWorkers}); err != nil {
			return err
		}
	case engine == "cpu" && c.Flags().Changed("gpus"):
		return fmt.Errorf("--gpus requires --engine gpu")
	default:
		o.GPUs = 0
	}
	if o.Lanes != "" {
		if _, err := testbed.ParseLanes(string(o.Lanes)); err != nil {
			return fmt.Errorf("--lanes %w", err)
		}
	}
	suite := c.Flags().Lookup("suite")
	setChunks(engine, o, suite != nil && suite.Value.String() != "")
	return checkNumbers(number{"batch", o.MaxPackets, 1, config.MaxPackets}, number{"workers", o.Workers, 1, maxWorkers},
		number{"chunk-bytes", o.MaxBytes, 0, maxChunkBytes}, number{"busy", o.Busy, 0, o.Workers},
		number{"nics", o.NICs, 0, maxNICs * o.Workers}, number{"chunks", o.Chunks, 1, maxChunks}, number{"shadow", o.Shadow, 0, math.MaxInt32},
		number{"tile-packets", o.PlainTile, 0, config.MaxPackets}, number{"batch-bytes", o.SecuredBatch, 0, 1 << 20},
		number{"multiprocessors", o.Multiprocessors, 0, 1024}, number{"shared-limit", o.SharedLimit, 0, 1 << 20}, number{"warps", o.Warps, 0, 32})
}

// setChunks sets the default number of chunks in flight.
func setChunks(engine string, o *testbed.Config, gateway bool) {
	most := config.ChunksWithGPU
	if gateway {
		most = config.ChunksOfGateway
	}
	o.Chunks = cmp.Or(o.Chunks, map[string]int{"cpu": 1, "gpu": most}[engine])
}

// addRoundFlags adds --rounds and --duration.
func addRoundFlags(c *cobra.Command, rounds *int, d *time.Duration, duration time.Duration) {
	c.Flags().IntVar(rounds, "rounds", 5, "number of rounds; the median is reported")
	c.Flags().DurationVar(d, "duration", duration, "duration of a round")
}

func checkRounds(rounds int, duration time.Duration) error {
	if duration <= 0 {
		return fmt.Errorf("--duration %v: write a positive duration", duration)
	}
	return checkNumbers(number{"rounds", rounds, 1, maxRounds})
}

// number is the value of a flag and its range.
type number struct {
	flag           string
	n, least, most int
}

// checkNumbers returns an error for the first number that is out of its range.
func checkNumbers(numbers ...number) error {
	for _, v := range numbers {
		if v.n < v.least || v.n > v.most {
			return fmt.Errorf("--%s %d: %d to %d are possible", v.flag, v.n, v.least, v.most)
		}
	}
	return nil
}

// optional formats a rate; 0 means none.
func optional(rate float64) string {
	if rate == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", rate)
}
