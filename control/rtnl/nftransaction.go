package rtnl

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Command is a message of a netfilter batch.
type Command struct {
	Kind  uint16 // message type without the subsystem
	Flags uint16 // unix.NLM_F_CREATE and others
	Body  []byte // header and attributes
}

// Batch executes commands of a netfilter subsystem, unix.NFNL_SUBSYS_..., in one transaction: the
// kernel applies all of them or none.
func (c *Conn) Batch(subsystem uint16, commands ...Command) error {
	resource := binary.BigEndian.AppendUint16([]byte{unix.AF_UNSPEC, unix.NFNETLINK_V0}, subsystem)
	first := c.seq + 1
	b := newRequest(unix.NFNL_MSG_BATCH_BEGIN, 0, first, resource...).bytes()
	for i, command := range commands {
		b = append(b, newRequest(subsystem<<8|command.Kind, command.Flags|unix.NLM_F_ACK, first+1+uint32(i), command.Body...).bytes()...)
	}
	c.seq = first + uint32(len(commands)) + 1
	b = append(b, newRequest(unix.NFNL_MSG_BATCH_END, 0, c.seq, resource...).bytes()...)
	err := c.send(b)
	if left := len(commands); err == nil && left > 0 {
		err = c.answers(func(msg Message) (done bool, err error) {
			if msg.Type != unix.NLMSG_ERROR || msg.Seq-first > uint32(len(commands)) {
				return false, nil
			}
			left--
			return left == 0, msg.Err()
		})
	}
	return wrap(fmt.Sprintf("batch of netfilter subsystem %d", subsystem), err)
}
