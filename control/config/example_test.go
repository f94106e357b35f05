package config_test

import (
	"fmt"

	"github.com/warproute/warproute/control/config"
)

// Parse reports all mistakes of a file, each with its place and a hint.
func ExampleParse() {
	_, err := config.Parse("warproute.yaml", []byte(`
ports:
  - interface: eth1
    mode: fastest
batch:
  max_packets: 5000
`))
	fmt.Println(err)
	// Output:
	// warproute.yaml:4:11: ports[0].mode: unknown value "fastest"; write auto, zero-copy, native or generic
	// warproute.yaml:6:16: batch.max_packets: 5000 is out of range; write 0 for the default, or a number up to 2048
}

// A reload applies the differences between two configurations.
func ExampleDiff() {
	before, after := config.Default("eth1", "eth2"), config.Default("eth1", "eth3")
	after.Batch.MaxPackets = 512
	for _, change := range config.Diff(before, after) {
		fmt.Println(change)
	}
	// Output:
	// - ports.eth2: mode auto
	// + ports.eth3: mode auto
	// ~ batch.max_packets: 0 -> 512
}
