package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
)

// wireCapture writes the frames of an interface to a pcap file and counts them.
type wireCapture struct {
	file *os.File
	to   *pcapgo.Writer
	end  func()
	n    wireCounts
	err  error // first write error
}

// wireCounts are numbers of IP packets, without neighbor discovery.
type wireCounts struct{ esp, other int }

func captureAt(ns *lab.Namespace, link, path string) (c *wireCapture, err error) {
	c = &wireCapture{}
	if c.file, err = os.Create(path); err == nil {
		c.to = pcapgo.NewWriter(c.file)
		err = c.to.WriteFileHeader(1<<16, layers.LinkTypeEthernet)
	}
	if err == nil {
		c.end, err = ns.Listen(link, c.write)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("capture at %s: %w", link, err)
	}
	return c, nil
}

func (c *wireCapture) write(frame []byte, _ bool) {
	c.count(frame)
	if c.err == nil {
		c.err = c.to.WritePacket(gopacket.CaptureInfo{Timestamp: time.Now(), CaptureLength: len(frame), Length: len(frame)}, frame)
	}
}

func (c *wireCapture) count(frame []byte) {
	if len(frame) < 34 {
		return
	}
	const esp, icmpv6 = 50, 58
	switch binary.BigEndian.Uint16(frame[12:]) {
	case unix.ETH_P_IP:
		if frame[14+9] == esp {
			c.n.esp++
			return
		}
		c.n.other++
	case unix.ETH_P_IPV6:
		if next := frame[14+6]; next != icmpv6 && next != 0 { // 0: multicast listener reports, after a hop-by-hop header
			c.n.other++
		}
	}
}

// stop ends the capture after all frames are written.
func (c *wireCapture) stop() (wireCounts, error) {
	if c.end != nil {
		c.end()
		c.end = nil
	}
	return c.n, c.err
}

func (c *wireCapture) close() {
	_, _ = c.stop()
	if c.file != nil {
		c.file.Close()
	}
}
