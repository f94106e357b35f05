package capture_test

import (
	"bytes"
	"fmt"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/capture"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/testutil"
)

// A dropped packet is written as pcapng, with its port and the reason.
func Example() {
	var file bytes.Buffer
	w, err := capture.NewWriter(&file, []string{"eth1", "eth2"}, capture.MaxSnap, "udp")
	if err != nil {
		panic(err)
	}
	frame := testutil.UDP4("192.0.2.1", "198.51.100.7", 12345, 53)
	err = w.Write(&dataplane.Record{Point: dataplane.Dropped, Port: 1, Reason: batch.NoRoute, Len: len(frame), Data: frame})
	if err != nil {
		panic(err)
	}
	if err := w.Flush(); err != nil {
		panic(err)
	}

	r, err := pcapgo.NewNgReader(&file, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		panic(err)
	}
	data, info, options, err := r.ReadPacketDataWithOptions()
	if err != nil {
		panic(err)
	}
	port, err := r.Interface(info.InterfaceIndex)
	if err != nil {
		panic(err)
	}
	fmt.Println(port.Name, len(data), "bytes", options.Comments)
	// Output: eth2 60 bytes [no_route: no route covers the destination]
}
