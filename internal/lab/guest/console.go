package guest

import "sync"

// console keeps the end of the written text.
type console struct {
	mu   sync.Mutex
	text []byte
}

const consoleBytes = 4096

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, p...)
	c.text = c.text[max(0, len(c.text)-consoleBytes):]
	return len(p), nil
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.text)
}
