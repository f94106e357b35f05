package status_test

import (
	"fmt"
	"os"

	"github.com/warproute/warproute/control/status"
)

// Answers have one structure for JSON and a table for people.
func Example() {
	err := status.WriteDrops(os.Stdout, []status.Drop{
		{Reason: "no_route", Description: "no route to the destination", Hint: "add a route", Port: "eth1", Packets: 1200},
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// REASON    PACKETS  BY INGRESS PORT
	// no_route  1200     eth1 1200
	// total     1200
	//
	// no_route: no route to the destination
	//   add a route
}
