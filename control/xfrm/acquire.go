package xfrm

import (
	"fmt"
	"time"

	"github.com/warproute/warproute/control/rtnl"
)

// acquireTimeout is the minimum interval of ACQUIREs for one tunnel. Key daemons ignore repeated
// ones.
const acquireTimeout = 3 * time.Second

// acquire makes Linux send an ACQUIRE to key daemons because a tunnel has a packet and no SA, as
// Linux does for its own packets.
func (m *Mirror) acquire(tunnel uint32) {
	m.acquired[tunnel] = time.Now()
	index, ok := m.acquirePolicy[tunnel]
	if !ok {
		return // the policy was deleted
	}
	msg, err := m.acquisition(index)
	if err == nil {
		err = m.conn.Do(msgAcquire, 0, msg, nil)
	}
	if err != nil {
		m.log.Warn("acquire failed", "sa", m.gateway.TunnelName(tunnel), "err", err)
		return
	}
	m.acquires++
}

// expireAcquires permits another ACQUIRE for tunnels without SA.
func (m *Mirror) expireAcquires() {
	for tunnel, at := range m.acquired {
		if time.Since(at) >= acquireTimeout {
			delete(m.acquired, tunnel)
			m.gateway.Answered(tunnel)
		}
	}
}

// acquisition returns struct xfrm_user_acquire with a policy and its template.
func (m *Mirror) acquisition(index uint32) (msg []byte, err error) {
	id := make([]byte, sizeofPolicyID)
	host.PutUint32(id[56:], index)
	id[60] = dirOut
	if p := m.policies[index]; p != nil && p.ifID != 0 {
		id = rtnl.AppendAttr(id, attrIfID, host.AppendUint32(nil, p.ifID))
	}
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
