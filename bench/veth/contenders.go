package veth

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/warproute/warproute/bench/hugepages"
	"github.com/warproute/warproute/bench/xdpgen"
	"github.com/warproute/warproute/internal/lab"
)

// Drop forwards nothing. It is the limit of the sender and of the port's receive path.
func Drop() Contender {
	return Contender{Name: "nothing: dropped at lan0", Bound: "the sender, and XDP at the port"}
}

// Linux is the kernel's forwarding on the router's core. An XDP program that passes everything makes the
// port receive by NAPI.
func Linux() Contender {
	return Contender{
		Name: "Linux, threaded NAPI", Bound: "the network stack on core 1",
		Threaded: true, Forwards: true, Rewrites: true,
		Start: func(top *lab.Topology) (func() error, error) {
			if err := top.Forwarding(true); err != nil {
				return nil, err
			}
			p, err := attachTo(top.Router, lab.LAN, xdpgen.AttachPass)
			if err != nil {
				return nil, err
			}
			return p.Close, nil
		},
	}
}

const testpmdMemory = 512 // MiB, in huge pages of 2 MiB

// Testpmd is DPDK's testpmd with its AF_XDP driver, which forwards frames unchanged.
func Testpmd(name string, threaded bool) Contender {
	return Contender{
		Name: name, Bound: "the kernel's AF_XDP transmit call",
		Forwards: true, Threaded: threaded,
		Start: func(top *lab.Topology) (func() error, error) {
			path, err := exec.LookPath("dpdk-testpmd")
			if err != nil {
				return nil, errors.New("dpdk-testpmd is not installed: apt-get install dpdk")
			}
			cmd := exec.Command(path, "-l", fmt.Sprintf("%d,%d", senderCore, routerCore), "--in-memory", "-m", strconv.Itoa(testpmdMemory), "--no-pci",
				"--vdev", "net_af_xdp0,iface="+lab.LAN, "--vdev", "net_af_xdp1,iface="+lab.WAN,
				"--", "--auto-start", "--nb-cores=1", "--forward-mode=io", "--burst=64")
			if _, err := cmd.StdinPipe(); err != nil { // testpmd ends at the end of its input
				return nil, err
			}
			restore, err := hugepages.Reserve(testpmdMemory/2 + 64)
			if err != nil {
				return nil, err
			}
			stop, err := start(top, cmd, func() bool { return attached(top, lab.LAN) && attached(top, lab.WAN) })
			if err != nil {
				restore()
				return nil, err
			}
			return func() error { defer restore(); return stop() }, nil
		},
	}
}

// attached reports whether a link of the router has an XDP program.
func attached(top *lab.Topology, link string) bool {
	l, err := top.Router.Link(link)
	return err == nil && l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached
}

// Warproute is `warproute run` with a configuration of two ports and more lines.
func Warproute(program, name string, config ...string) Contender {
	return Contender{
		Name: name, Bound: "the kernel's AF_XDP transmit call",
		Forwards: true, Rewrites: true,
		Start: func(top *lab.Topology) (stop func() error, err error) {
			dir, err := os.MkdirTemp("", "warproute-bench")
			if err != nil {
				return nil, err
			}
			defer func() {
				if err != nil {
					os.RemoveAll(dir)
				}
			}()
			socket, file := filepath.Join(dir, "control.sock"), filepath.Join(dir, "router.yaml")
			lines := append([]string{
				"ports: [{interface: " + lab.LAN + "}, {interface: " + lab.WAN + "}]",
				"control: {socket: " + socket + "}", `metrics: {listen: ""}`,
			}, config...)
			if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
				return nil, err
			}
			end, err := start(top, exec.Command(program, "run", "--config", file), func() bool { _, err := os.Stat(socket); return err == nil })
			if err != nil {
				return nil, err
			}
			return func() error { defer os.RemoveAll(dir); return end() }, nil
		},
	}
}

// start starts a process in the router's namespace and waits until it is ready.
func start(top *lab.Topology, cmd *exec.Cmd, ready func() bool) (stop func() error, err error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := top.Router.Start(cmd)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(10 * time.Second); !ready(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-p.Done():
			return nil, fmt.Errorf("%s ended: %v\n%s", cmd.Path, p.Wait(), tail(out.Bytes()))
		default:
		}
		if time.Now().After(deadline) {
			_ = p.Stop(time.Second)
			return nil, fmt.Errorf("%s is not ready after 10 s\n%s", cmd.Path, tail(out.Bytes()))
		}
	}
	return func() error {
		if err := p.Stop(5 * time.Second); err != nil {
			return fmt.Errorf("%w\n%s", err, tail(out.Bytes()))
		}
		return nil
	}, nil
}

// tail returns the end of a process's output.
func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }
