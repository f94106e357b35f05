package batch

import "fmt"

// Verdict is the decision of an engine on one packet: an action in the upper four bits, its
// argument in the lower twelve.
//
//	 15    12 11                    0
//	+--------+-----------------------+
//	| action | port, or drop reason  |
//	+--------+-----------------------+
//
// The zero Verdict is "drop, unprocessed". Workers clear the verdicts before they submit a chunk,
// so that an engine forwards no packet by accident.
type Verdict uint16

// Action is the upper four bits of a Verdict.
type Action uint8

const (
	ActionDrop    Action = iota // argument: the Reason
	ActionForward               // argument: the egress port
	ActionHold                  // the neighbor is unresolved, see Result.Adjacency
	ActionLost                  // the engine failed with the packet, and may still write to its frame
)

// MaxPorts bounds the port numbers that fit a verdict.
const MaxPorts = 1 << 12

// Drop is the verdict that drops a packet for reason r.
func Drop(r Reason) Verdict { return Verdict(r) }

// Forward is the verdict that sends a packet out of a port below MaxPorts.
func Forward(port uint16) Verdict { return Verdict(ActionForward)<<12 | Verdict(port) }

// Hold is the verdict that keeps a packet unchanged until its neighbor is resolved.
const Hold = Verdict(ActionHold) << 12

// Lost is the verdict on a packet that a failed engine did not return. The packet counts as dropped;
// its frame must not be used before the engine has quiesced.
const Lost = Verdict(ActionLost) << 12

func (v Verdict) Action() Action { return Action(v >> 12) }
func (v Verdict) Port() uint16   { return uint16(v & 0xfff) }

// Reason returns the reason of a drop, Unprocessed for other verdicts and unknown reasons.
func (v Verdict) Reason() Reason {
	if r := v & 0xfff; v.Action() == ActionDrop && int(r) < NumReasons {
		return Reason(r)
	}
	return Unprocessed
}

func (v Verdict) String() string {
	switch v.Action() {
	case ActionDrop:
		return "drop: " + v.Reason().String()
	case ActionForward:
		return fmt.Sprintf("forward: port %d", v.Port())
	case ActionHold:
		return "hold"
	case ActionLost:
		return "lost"
	}
	return fmt.Sprintf("invalid verdict %#x", uint16(v))
}
