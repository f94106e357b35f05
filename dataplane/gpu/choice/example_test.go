package choice_test

import (
	"fmt"
	"time"

	"github.com/warproute/warproute/dataplane/gpu/choice"
)

// A worker asks for the engine of each chunk, and reports how long the chunk took.
func Example() {
	c := choice.New()
	names := [choice.NumEngines]string{"CPU", "GPU"}
	for _, w := range []choice.Work{
		{Packets: 8, Bytes: 8 * 64, Class: choice.Forward},
		{Packets: 256, Bytes: 256 * 1408, Class: choice.HMAC},
	} {
		submitted := time.Second
		chosen := c.Choose(w, choice.Situation{Now: submitted, Idle: submitted / 2})
		fmt.Printf("%d packets: %s\n", w.Packets, names[chosen.Engine])

		finished := submitted + 30*time.Microsecond
		if chosen.Engine == choice.CPU {
			c.FinishCPU(&chosen, w.Class, finished)
		} else {
			c.FinishGPU(&chosen, w.Class, 0, finished, finished+time.Microsecond)
		}
	}
	// Output:
	// 8 packets: CPU
	// 256 packets: GPU
}
