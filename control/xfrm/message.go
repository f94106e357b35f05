package xfrm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// Constants of linux/xfrm.h that x/sys lacks.
const (
	msgNewSA       = 0x10
	msgDelSA       = 0x11
	msgGetSA       = 0x12
	msgNewPolicy   = 0x13
	msgDelPolicy   = 0x14
	msgGetPolicy   = 0x15
	msgAcquire     = 0x17
	msgExpire      = 0x18
	msgUpdPolicy   = 0x19
	msgUpdSA       = 0x1a
	msgPolExpire   = 0x1b
	msgFlushSA     = 0x1c
	msgFlushPolicy = 0x1d
	msgNewAE       = 0x1e
	msgGetAE       = 0x1f
	msgMigrate     = 0x21
	msgSetDefault  = 0x27
	msgGetDefault  = 0x28

	groupAcquire = 1
	groupExpire  = 2
	groupSA      = 3
	groupPolicy  = 4
	groupMigrate = 7

	attrAlgCrypt     = 2
	attrAlgComp      = 3
	attrEncap        = 4
	attrTmpl         = 5
	attrSA           = 6
	attrPolicy       = 7
	attrSecCtx       = 8
	attrLifetime     = 9
	attrReplay       = 10
	attrCoAddr       = 14
	attrPolicyType   = 16
	attrAlgAEAD      = 18
	attrAlgAuthTrunc = 20
	attrMark         = 21
	attrTFCPad       = 22
	attrReplayESN    = 23
	attrExtraFlags   = 24
	attrOffloadDev   = 28
	attrSetMark      = 29
	attrIfID         = 31
	attrDirection    = 33
)

// Sizes of structs in bytes, with 64-bit padding.
const (
	sizeofSA        = 224 // xfrm_usersa_info
	sizeofSAID      = 24  // xfrm_usersa_id
	sizeofExpire    = 232 // xfrm_user_expire
	sizeofPolicy    = 168 // xfrm_userpolicy_info
	sizeofPolicyID  = 64  // xfrm_userpolicy_id
	sizeofPolExpire = 176 // xfrm_user_polexpire
	sizeofAcquire   = 280 // xfrm_user_acquire
	sizeofTmpl      = 64  // xfrm_user_tmpl
	sizeofAEventID  = 48  // xfrm_aevent_id
	sizeofDefault   = 3   // xfrm_userpolicy_default
	sizeofEncap     = 24  // xfrm_encap_tmpl
	sizeofReplay    = 12  // xfrm_replay_state
	sizeofReplayESN = 24  // xfrm_replay_state_esn, without its bitmap
	sizeofAlgo      = 68  // xfrm_algo, without its key
	sizeofAlgoSized = 72  // xfrm_algo_auth and xfrm_algo_aead, without their key
	sizeofAlgoName  = 64
)

// Values.
const (
	infinite       = 1<<64 - 1 // no limit
	policyTypeMain = 0
	defaultBlock   = 1
	encapESPinUDP  = 2
)

// host is the byte order of these structs, except for ports and SPIs.
var host = binary.NativeEndian

// errCompare is returned for events that require a resync.
var errCompare = errors.New("resync required")

// handle applies an event.
func (t *tables) handle(msg rtnl.Message) error {
	switch msg.Type {
	case msgNewSA, msgUpdSA:
		s, err := parseState(msg)
		if err != nil {
			return err
		}
		t.setState(s)
	case msgDelSA, msgExpire:
		if msg.Type == msgExpire && len(msg.Data) >= sizeofExpire && msg.Data[sizeofSA] == 0 {
			return nil // soft limit, for the key daemon
		}
		s, err := parseState(msg)
		if err != nil {
			return err
		}
		s.wipe()
		t.deleteState(s.id)
	case msgNewPolicy, msgUpdPolicy:
		p, err := parsePolicy(msg.Data)
		if err != nil {
			return err
		}
		t.setPolicy(p)
	case msgDelPolicy:
		index, err := parseDeletedPolicy(msg.Data)
		if err != nil {
			return err
		}
		t.deletePolicy(index)
	case msgPolExpire: // the only event for a policy that reaches its hard limit
		h, a := rtnl.Header(msg.Data, sizeofPolExpire)
		if h == nil {
			return fmt.Errorf("expiry of an XFRM policy: %w", a.Err)
		}
		if h[sizeofPolicy] != 0 {
			t.deletePolicy(host.Uint32(h[156:]))
		}
	case msgSetDefault, msgGetDefault: // Linux 6.1 sends the latter
		if len(msg.Data) < sizeofDefault {
			return fmt.Errorf("default of XFRM policies: %w", rtnl.ErrTruncated)
		}
		t.setDefaults([sizeofDefault]byte(msg.Data))
	case msgFlushSA, msgFlushPolicy, msgMigrate:
		return errCompare
	}
	return nil
}

// address parses an xfrm_address_t.
func address(b []byte, family uint16) netip.Addr {
	if family == unix.AF_INET6 {
		return netip.AddrFrom16([16]byte(b[:16]))
	}
	return netip.AddrFrom4([4]byte(b[:4]))
}

// putAddress writes an xfrm_address_t and returns its family.
func putAddress(b []byte, a netip.Addr) uint16 {
	copy(b, a.AsSlice())
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// want returns the value of an attribute with a minimum length.
func want(a *rtnl.Attrs, n int) ([]byte, bool) {
	if len(a.Value) < n && a.Err == nil {
		a.Err = fmt.Errorf("attribute %d has %d bytes, want %d: %w", a.Kind, len(a.Value), n, rtnl.ErrTruncated)
	}
	return a.Value, len(a.Value) >= n
}

// dump holds all states and policies of Linux, newest first.
type dump struct {
	states   []*state
	policies []*policy
	defaults [sizeofDefault]byte
}

func (d *dump) state(msg rtnl.Message) error {
	s, err := parseState(msg)
	if err == nil {
		d.states = append(d.states, s)
	}
	return err
}

func (d *dump) policy(msg rtnl.Message) error {
	p, err := parsePolicy(msg.Data)
	if err == nil {
		d.policies = append(d.policies, p)
	}
	return err
}

func (d *dump) fallback(msg rtnl.Message) error {
	if copy(d.defaults[:], msg.Data) < sizeofDefault {
		return fmt.Errorf("default policies: %w", rtnl.ErrTruncated)
	}
	return nil
}

// wipe wipes the keys of states that the tables did not take.
func (d *dump) wipe() {
	for _, s := range d.states {
		s.wipe()
	}
}
