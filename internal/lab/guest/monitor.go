package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"
)

// monitorFile is QEMU's socket for commands (QMP), in the directory of the guest.
const monitorFile = "monitor.sock"

// monitor runs a command of QEMU's machine protocol (QEMU's docs/interop/qmp-spec.rst).
func (g *Guest) monitor(command string, args map[string]any) error {
	conn, err := net.Dial("unix", filepath.Join(g.dir, monitorFile))
	if err != nil {
		return fmt.Errorf("connect to QEMU: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	encoder, decoder := json.NewEncoder(conn), json.NewDecoder(conn)
	for _, c := range []map[string]any{{"execute": "qmp_capabilities"}, {"execute": command, "arguments": args}} {
		if err := encoder.Encode(c); err != nil {
			return fmt.Errorf("%s in QEMU: %w", command, err)
		}
		for answered := false; !answered; {
			var answer struct {
				Return json.RawMessage
				Error  *struct{ Desc string }
			} // else the greeting or an event
			if err := decoder.Decode(&answer); err != nil {
				return fmt.Errorf("%s in QEMU: %w", command, err)
			}
			if answer.Error != nil {
				return fmt.Errorf("%s in QEMU: %w", command, errors.New(answer.Error.Desc))
			}
			answered = answer.Return != nil
		}
	}
	return nil
}
