// Command faultyrouter stands for a new version of warproute that fails in a step of an upgrade. The file fault
// beside the program names the step.
package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/warproute/warproute/internal/handover"
)

func main() {
	fault, _ := os.ReadFile(filepath.Join(filepath.Dir(os.Args[0]), "fault"))
	fd := 0
	for _, a := range os.Args {
		if n, ok := strings.CutPrefix(a, "--upgrade-fd="); ok {
			fd, _ = strconv.Atoi(n)
		}
	}
	conn, err := handover.Inherit(fd)
	if err != nil {
		os.Exit(64)
	}
	step := func(name string) {
		switch string(fault) {
		case "crash " + name:
			os.Exit(2)
		case "hang " + name:
			time.Sleep(time.Hour)
		case "fail " + name:
			_ = conn.Send(handover.Message{Kind: handover.KindFailed, Error: "no memory is left"})
			os.Exit(1)
		}
	}
	step("at the start")
	if _, _, err := conn.Receive(handover.KindOffer); err != nil {
		os.Exit(1)
	}
	step("while it prepares")
	_ = conn.Send(handover.Message{Kind: handover.KindReady, Ready: &handover.Ready{Version: "faulty"}})
	step("when it is ready")
	if _, _, err := conn.Receive(handover.KindState); err != nil {
		os.Exit(1)
	}
	step("with the ports")
}
