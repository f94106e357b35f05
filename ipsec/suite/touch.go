package suite

// Touch reads the memory of a Transform and of what it encrypts with, for later.
func (t *Transform) Touch() uint64 {
	n := len(t.suite.Name) + int(t.counter[0])
	switch {
	case t.vectors != nil:
		n += t.vectors.Touch()
	case t.aead != nil:
		n += t.aead.NonceSize()
	}
	return uint64(n)
}
