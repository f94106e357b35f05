package fib

import "sync/atomic"

// OverXFRM reports whether packets of a next hop leave by an XFRM interface: see IfID.
func (w NextHop) OverXFRM() bool {
	return w.Kind() == KindNoPort && (w.Group() || w.Index() != 0)
}

// IfID returns the if_id of the XFRM interface by which packets with a flow hash leave. The next hop is one
// OverXFRM.
func (f *FIB) IfID(w NextHop, hash uint32) uint32 {
	if w.Group() {
		return atomic.LoadUint32(&f.groups[w.Index()*Buckets+hash>>24])
	}
	return w.Index()
}
