package gpu

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/cuda"
)

// params is the first parameter of the kernels: struct mailbox of mailbox.h.
type params struct {
	Slots                                                                                 cuda.DevicePtr
	SlotBytes, Results, Descriptors, Jobs, Headers, ShortHeaders, Completions, BlockCount uint32
	Workers, Control, Awake                                                               cuda.DevicePtr
	Tables                                                                                tablePointers
}

// workerMemory is struct worker_memory of mailbox.h.
type workerMemory struct {
	Umem  cuda.DevicePtr
	Bytes uint64
}

// Launch shapes, as in forward.cu and gateway.cu: threads of a block at most, and bytes of its
// shared memory: a header, a scratch per warp, in a gateway also its struct tile, and AES tables.
const (
	threads        = 512
	forwardScratch = 4608
	gatewayThreads = 256
	gatewayScratch = 5152
	forwardHeader  = 16
	gatewayHeader  = 64
	aesBytes       = 73728
)

// kernelState is whether the kernel of a device accepts tiles, shared with its workers.
type kernelState struct {
	parked atomic.Bool   // it does not
	wanted chan struct{} // a worker has a chunk for the parked kernel
	late   atomic.Int32  // workers that wait for a late chunk

	backlog atomic.Int64 // bytes of the workers' chunks on the GPU, see Engine.choose

	launches atomic.Uint32
}

// requestWake asks the device's controller to launch the kernel. It does not block.
func (k *kernelState) requestWake() {
	select {
	case k.wanted <- struct{}{}:
	default:
	}
}

// kernel is the resident kernel of a device, which serves all its workers. Parked, it does not run and
// leaves the GPU to others; its memory stays.
type kernel struct {
	d       *Device
	state   kernelState
	mailbox *mailbox
	pool    *blockPool
	lender  *lender // whose requests this kernel serves; nil: of none
	code    *cuda.Function
	launch  *cuda.Launch
	stream  *cuda.Stream
	workers *cuda.Memory // workerMemory by number
	awake   *cuda.Memory // the watcher's copy of the mailbox's control word

	mu      sync.Mutex
	home    *kernel   // of the GPU whose memory has the sequence numbers; nil: this one
	takers  []*kernel // that take sequence numbers from the memory of this GPU
	running bool
	memory  memoryState
	wakes   atomic.Uint64 // launches after parking
}

// kernelParams is all parameters of the kernels; the forwarding kernel has no IPsec tables.
type kernelParams struct {
	Mailbox params
	IPsec   ipsecTablesParams
}

// newKernel prepares the launch of a kernel with a number of blocks, of a number of warps each. The context must
// be current.
func (d *Device) newKernel(f *cuda.Function, blocks, warps int, dynamic uint32) (*kernel, error) {
	k := &kernel{d: d, code: f, pool: newBlockPool(blocks), state: kernelState{wanted: make(chan struct{}, 1)}}
	k.state.parked.Store(true)
	var err error
	depth := 1
	if d.ipsecTables != nil {
		depth = gatewayDepth
	}
	if k.mailbox, err = newMailbox(blocks, depth, warps); err != nil {
		return nil, err
	}
	d.closers = append(d.closers, k.mailbox.Close)
	if d.ipsecTables != nil && !d.options.HostNumbers && blocks >= minLendBlocks {
		if home := d.options.seqHome; home != nil {
			d.ipsecTables.lender = home.kernel.lender
			k.takesFrom(home.kernel)
		} else {
			k.lender = newLender(&d.state, k.mailbox, k.pool, d.options)
			d.ipsecTables.lender = k.lender
		}
	}
	host, err := d.register(k.mailbox.Bytes)
	if err != nil {
		return nil, err
	}
	if k.workers, err = d.alloc(maxWorkers * workerMemoryBytes); err != nil {
		return nil, err
	}
	if k.awake, err = d.alloc(4); err != nil {
		return nil, err
	}
	if k.stream, err = d.newStream(0); err != nil {
		return nil, err
	}
	m := k.mailbox
	p := params{
		Slots: host.Ptr().Add(slotsAt), SlotBytes: uint32(m.slotBytes), Results: doneBytes, Descriptors: uint32(m.descriptorsAt), Jobs: uint32(m.jobsAt),
		Headers: uint32(m.headersAt), ShortHeaders: uint32(m.shortHeadersAt), Completions: uint32(m.completionsAt), BlockCount: uint32(blocks),
		Workers: k.workers.Ptr(), Control: host.Ptr(), Awake: k.awake.Ptr(), Tables: d.pointers,
	}
	if d.ipsecTables != nil {
		k.launch, err = cuda.NewLaunch(f, &kernelParams{p, d.ipsecTables.params()})
	} else {
		k.launch, err = cuda.NewLaunch(f, &struct{ Mailbox params }{p})
	}
	if err != nil {
		return nil, err
	}
	k.launch.Grid, k.launch.Block, k.launch.Shared = cuda.Dim{X: uint32(blocks + 1)}, cuda.Dim{X: uint32(32 * warps)}, dynamic
	return k, nil
}

// addWorker maps a worker's memory for the kernel, which is parked.
func (k *kernel) addWorker(number int, umem []byte) error {
	frames, err := k.d.register(umem)
	if err != nil {
		return err
	}
	return k.workers.Write(number*workerMemoryBytes, bytesOf([]uint64{uint64(frames.Ptr()), uint64(len(umem))}))
}

// wake launches the kernel and opens its blocks, unless it runs or the device failed. With too little memory
// for the tables it stays parked, and returns an error although the device is usable.
func (k *kernel) wake() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running || !k.d.state.ok() {
		return nil
	}
	k.wakeHome() // before restore, which takes time, so that both restore their tables at once
	if err := k.restore(); err != nil {
		return err
	}
	awake := min(k.pool.blocks, minAwakeBlocks)
	k.mailbox.prepare(awake)
	if err := k.d.ctx.Do(func() error {
		if err := k.stream.Fill32(k.awake.Ptr(), uint32(awake), 1); err != nil {
			return err
		}
		if t := k.d.ipsecTables; t != nil {
			if err := k.stream.Fill32(t.nowServing, 0, maxWorkers*nowServingBytes/4); err != nil {
				return err
			}
		}
		return k.launch.Enqueue(k.stream)
	}); err != nil {
		return err
	}
	k.running = true
	k.wakes.Add(1)
	k.state.launches.Add(1)
	k.pool.open()
	k.lender.start()
	k.state.parked.Store(false)
	return nil
}

// park ends the kernel when its last tile is finished, and reports whether it did. New chunks are executed
// by the CPU meanwhile. If tiles are not finished in time, the kernel keeps running.
func (k *kernel) park(timeout time.Duration) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.running {
		return true, nil
	}
	k.state.parked.Store(true)
	by := time.Now().Add(timeout)
	taken := make([]uint64, len(k.pool.words))
	for !k.pool.takeAll(taken) {
		if time.Now().After(by) || !k.d.state.ok() {
			k.pool.giveBack(taken)
			k.state.parked.Store(false)
			return false, nil
		}
		time.Sleep(pollInterval)
	}
	k.lender.end()
	if err := k.d.ctx.Do(func() error { return k.stop(time.Now().Add(haltTimeout)) }); err != nil {
		return false, err
	}
	return true, nil
}

// stop ends the kernel, after its last tile. The context must be current.
func (k *kernel) stop(by time.Time) error {
	if err := waitUntil(by, func() (bool, error) {
		_, err := k.stream.Done() // reports a fault
		return k.mailbox.idle(), err
	}); err != nil {
		return err
	}
	atomic.StoreUint32(k.mailbox.control, stop)
	if err := waitUntil(by, k.stream.Done); err != nil {
		return err
	}
	k.running = false
	return nil
}

// halt ends the kernel for good. The workers have stopped.
func (k *kernel) halt(by time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.running {
		return nil
	}
	k.state.parked.Store(true)
	k.lender.end()
	return k.d.ctx.Do(func() error { return k.stop(by) })
}

// idle reports whether the GPU has finished all tiles.
func (m *mailbox) idle() bool {
	for i := range m.slots {
		if !m.slots[i].finished() {
			return false
		}
	}
	return true
}

// haltTimeout limits the wait for the end of work on a device. pollInterval is the time between two polls.
const (
	haltTimeout  = time.Second
	pollInterval = 20 * time.Microsecond
)

// waitUntil polls until done, or until a point in time.
func waitUntil(by time.Time, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if time.Now().After(by) {
			return fmt.Errorf("not finished within %v", haltTimeout)
		}
		time.Sleep(pollInterval)
	}
}
