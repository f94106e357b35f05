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

// PassesRPFOver is PassesRPF for packets out of the tunnel of an XFRM interface.
func (f *FIB) PassesRPFOver(mode RPFMode, ifID uint32, source ID) bool {
	hop := f.NextHop(source)
	switch {
	case mode == RPFOff:
		return true
	case hop.Kind() != KindForward && hop.Kind() != KindNoPort:
		return false
	case mode == RPFLoose:
		return true
	case !hop.OverXFRM():
		return false
	case !hop.Group():
		return hop.Index() == ifID
	}
	for i := hop.Index() * Buckets; i < (hop.Index()+1)*Buckets; i++ {
		if atomic.LoadUint32(&f.groups[i]) == ifID {
			return true
		}
	}
	return false
}
