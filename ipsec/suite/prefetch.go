package suite

// Prefetch prefetches the memory of a Transform.
func (t *Transform) Prefetch() uint64 {
	n := len(t.suite.Name) + int(t.counter[0])
	switch {
	case t.vectors != nil:
		n += t.vectors.Prefetch()
	case t.aead != nil:
		n += t.aead.NonceSize()
	}
	return uint64(n)
}
