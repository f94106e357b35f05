package guest

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// cpio is an initramfs archive (newc).
type cpio struct {
	b     bytes.Buffer
	inode int
}

// add adds a file or directory; mode includes the type.
func (c *cpio) add(name string, mode uint32, content []byte) {
	name = strings.TrimPrefix(name, "/")
	c.inode++
	fmt.Fprintf(&c.b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		c.inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name)+1, 0, name)
	c.pad()
	c.b.Write(content)
	c.pad()
}

func (c *cpio) addFile(name, from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	c.add(name, 0o100755, content)
	return nil
}

func (c *cpio) pad() { c.b.Write(make([]byte, -c.b.Len()&3)) }

func (c *cpio) bytes() []byte {
	c.add("TRAILER!!!", 0, nil)
	return c.b.Bytes()
}
