package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/umem"
)

// dmaFlags say what DMA costs the cores that emulate NICs.
type dmaFlags struct {
	dma    string
	memory int // MiB of prepared frames
}

// maxMemory leaves room for the frames of rings in a memory with 32-bit addresses.
const maxMemory = 3 << 10

func (f *dmaFlags) addFlags(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.dma, "dma", "copy", "`DMA` of emulated NICs: copy packets, or none, which costs their cores a descriptor per packet")
	fl.IntVar(&f.memory, "memory", 1024, "`MIB` of prepared frames per worker with --dma none; of packets to decrypt, --ring limits them too")
	cli.CompleteValues(c, "dma", "copy", "none")
}

// check checks the flags and sets the prepared frames of a testbed.
func (f *dmaFlags) check(c *cobra.Command, o *testbed.Config) error {
	switch {
	case f.dma != "copy" && f.dma != "none":
		return fmt.Errorf("--dma %s: write copy or none", f.dma)
	case f.dma == "copy" && c.Flags().Changed("memory"):
		return errors.New("--memory requires --dma none")
	case f.dma == "none" && o.NICs == 0:
		return errors.New("--dma none: set --nics 1 or more, as a worker without an emulated NIC copies its packets")
	}
	if f.dma == "none" {
		o.Prepared = f.memory << 20 / umem.FrameSize
	}
	return checkNumbers(number{"memory", f.memory, 1, maxMemory})
}
