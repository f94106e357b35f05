// Package divert diverts packets that Linux transmits on an interface to another interface, or drops them, by a
// filter of traffic control (tc-matchall(8), tc-mirred(8)).
//
// An IPsec gateway diverts packets of its host on XFRM interfaces to itself: if Linux encrypted them, too, two
// senders would use the sequence numbers of an SA, and the peer would drop packets as replayed.
//
// A filter belongs to its interface, and outlives the process. Without the interface that packets are diverted to,
// it drops them.
package divert

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// Constants of linux/pkt_sched.h, pkt_cls.h and tc_act.
const (
	clsact       = 0xfffffff1 // TC_H_CLSACT
	clsactHandle = 0xffff0000
	egress       = 0xfffffff3 // TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS)

	tcaKind     = 1
	tcaOptions  = 2
	matchallAct = 2 // TCA_MATCHALL_ACT
	actKind     = 1
	actOptions  = 2
	actParms    = 2 // TCA_MIRRED_PARMS, TCA_GACT_PARMS
	actShot     = 2 // TC_ACT_SHOT
	actStolen   = 4 // TC_ACT_STOLEN
	egressRedir = 1 // TCA_EGRESS_REDIR

	// priority of the filter, by which it is found again.
	priority = 0x7772
)

// Diverter changes filters in the network namespace of its creation. It is not safe for concurrent use.
type Diverter struct{ conn *rtnl.Conn }

// ClearAll removes the filters of all XFRM interfaces of the calling thread's network namespace, if there are any.
func ClearAll() error {
	d, err := New()
	if err != nil {
		return err
	}
	defer d.Close()
	var found []int
	err = d.conn.Dump(rtnl.Links(), func(msg rtnl.Message) error {
		return rtnl.Parse(msg, func(l *rtnl.Link) {
			if l.Kind == "xfrm" {
				found = append(found, l.Index)
			}
		})
	})
	for _, index := range found {
		err = errors.Join(err, d.Clear(index))
	}
	return err
}

// New returns a Diverter.
func New() (*Diverter, error) {
	conn, err := rtnl.Dial()
	if err != nil {
		return nil, fmt.Errorf("connect to traffic control: %w", err)
	}
	return &Diverter{conn}, nil
}

// Close closes the connection. Filters stay.
func (d *Diverter) Close() error { return d.conn.Close() }

// Set diverts the packets that Linux transmits on an interface to another, by their indexes; 0 drops them. It
// replaces an earlier filter. Interfaces that do not exist are an error.
func (d *Diverter) Set(from, to int) error {
	if err := d.remove(from); err != nil {
		return failed(from, to, "remove the earlier filter", err)
	}
	return d.Keep(from, to)
}

// Keep repeats an earlier Set, in case somebody has deleted its filter or the queueing discipline.
func (d *Diverter) Keep(from, to int) error {
	err := d.conn.Do(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_EXCL, message(from, clsactHandle, clsact, 0, text(tcaKind, "clsact")), nil)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return failed(from, to, "add queueing discipline clsact", err)
	}
	name, parms := "gact", numbers(0, 0, actShot, 0, 0)
	if to != 0 {
		name, parms = "mirred", numbers(0, 0, actStolen, 0, 0, egressRedir, uint32(to))
	}
	action := nested(1, text(actKind, name), nested(actOptions, attr(actParms, parms)))
	filter := message(from, 1, egress, filterInfo, text(tcaKind, "matchall"), nested(tcaOptions, nested(matchallAct, action)))
	err = d.conn.Do(unix.RTM_NEWTFILTER, unix.NLM_F_CREATE|unix.NLM_F_EXCL, filter, nil)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return failed(from, to, "add filter", err)
	}
	return nil
}

func failed(from, to int, what string, err error) error {
	return fmt.Errorf("divert packets of interface %d to %d: %s: %w; it needs the kernel modules sch_ingress, cls_matchall and act_mirred", from, to, what, err)
}

// Clear removes the filter of an interface, if there is one. The queueing discipline stays.
func (d *Diverter) Clear(from int) error {
	if err := d.remove(from); err != nil {
		return fmt.Errorf("remove the filter of interface %d: %w", from, err)
	}
	return nil
}

func (d *Diverter) remove(from int) error {
	err := d.conn.Do(unix.RTM_DELTFILTER, 0, message(from, 0, egress, filterInfo), nil)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) { // no filter, interface or discipline
		return nil
	}
	return err
}

// filterInfo is tcm_info of a filter: its priority, and all protocols in network byte order.
var filterInfo = uint32(priority)<<16 | uint32(binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}))

// message returns a struct tcmsg with attributes.
func message(index int, handle, parent, info uint32, attrs ...[]byte) []byte {
	b := numbers(unix.AF_UNSPEC, uint32(index), handle, parent, info)
	for _, a := range attrs {
		b = append(b, a...)
	}
	return b
}

func numbers(list ...uint32) (b []byte) {
	for _, n := range list {
		b = binary.NativeEndian.AppendUint32(b, n)
	}
	return b
}

func attr(kind uint16, value []byte) []byte { return rtnl.AppendAttr(nil, kind, value) }

func text(kind uint16, s string) []byte { return attr(kind, append([]byte(s), 0)) }

func nested(kind uint16, attrs ...[]byte) []byte {
	var b []byte
	for _, a := range attrs {
		b = append(b, a...)
	}
	return attr(kind|unix.NLA_F_NESTED, b)
}
