package gpu

// publish stores a word after all that was stored before it. This processor does
// so with every store, and the compiler keeps their order.
func publish(at *uint64, word uint64) { *at = word }
