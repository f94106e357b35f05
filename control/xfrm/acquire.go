package xfrm

import (
	"fmt"
	"time"

	"github.com/warproute/warproute/control/rtnl"
)

// againAfter is how long key daemons have before they are asked for the same again. Those
// that are at it already do not mind.
const againAfter = 3 * time.Second

// acquire has Linux ask key daemons for an association of a bundle: a packet is to be
// protected, and there is none. Linux would ask by itself for packets that pass through it.
func (m *Mirror) acquire(bundle uint32) {
	m.asking[bundle] = time.Now()
	index, is := m.wanting[bundle]
	if !is {
		return // the policy is gone
	}
	msg, err := m.acquisition(index)
	if err == nil {
		err = m.conn.Do(msgAcquire, 0, msg, nil)
	}
	if err != nil {
		m.log.Warn("could not ask key daemons for an association", "bundle", m.gateway.BundleName(bundle), "err", err)
		return
	}
	m.counts.acquires++
}

// askAgain lets packets ask for what is missing still.
func (m *Mirror) askAgain() {
	for bundle, at := range m.asking {
		if time.Since(at) >= againAfter {
			delete(m.asking, bundle)
			m.gateway.Answered(bundle)
		}
	}
}

// acquisition is struct xfrm_user_acquire with a policy and its templates, as Linux has them.
func (m *Mirror) acquisition(index uint32) (msg []byte, err error) {
	id := make([]byte, sizeofPolicyID)
	host.PutUint32(id[56:], index)
	id[60] = dirOut
	err = m.conn.Do(msgGetPolicy, 0, id, func(answer rtnl.Message) error {
		policy, attrs := rtnl.Header(answer.Data, sizeofPolicy)
		for attrs.Next() {
			if attrs.Kind != attrTmpl {
				continue
			}
			if v, ok := want(&attrs, sizeofTmpl); ok {
				msg = make([]byte, sizeofAcquire)
				copy(msg[:24], v)          // struct xfrm_id
				copy(msg[24:40], v[28:44]) // source
				copy(msg[40:96], policy)   // selector
				copy(msg[96:264], policy)
				msg = rtnl.AppendAttr(msg, attrTmpl, v)
			}
		}
		return attrs.Err
	})
	if err == nil && msg == nil {
		err = fmt.Errorf("XFRM policy %d has no template", index)
	}
	return msg, err
}
