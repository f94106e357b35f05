package ladder

import (
	"errors"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/lookup/device"
)

// route is struct route of copies.h.
type route struct {
	Result          uint64
	Adjacency, Port uint64
	IPv4, Unused    uint32
}

const routeBytes = 32

// copiesParams is struct copies of copies.h.
type copiesParams struct {
	Tables                                      tables
	Frames, Headers, Routes, Results, Rewritten cuda.DevicePtr
	N, Unused                                   uint32
}

// copies is a slot whose chunk is copied to the device and back: headers are gathered to a buffer, results
// and rewritten headers scattered from one. Each slot has its own buffers and stream.
type copies struct {
	mem        []byte
	in, out    *device.Pinned // in: frames, headers; out: results, rewritten headers
	from, to   *cuda.Memory   // their copies on the device
	params     struct{ C copiesParams }
	launches   [3]*cuda.Launch
	stream     *cuda.Stream
	event      *cuda.Event // recorded behind the work of a chunk
	copied     int         // bytes of in
	copiedBack int         // bytes of out
}

func openCopies(b *bench, mem []byte, slots, size int) (*engine, error) {
	return openLaunched(b, mem, slots, func(l *launched) (slot, error) { return newCopies(l, size) })
}

func newCopies(l *launched, size int) (s *copies, err error) {
	s = &copies{mem: l.mem}
	s.params.C.Tables = l.tables
	if s.in, err = l.gpu.Pin(aligned(size*frameBytes) + size*headerBytes); err != nil {
		return nil, err
	}
	if s.out, err = l.gpu.Pin(aligned(size*resultBytes) + size*rewrittenBytes); err != nil {
		return nil, err
	}
	if s.from, err = l.gpu.Alloc(len(s.in.Bytes)); err != nil {
		return nil, err
	}
	if s.to, err = l.gpu.Alloc(len(s.out.Bytes)); err != nil {
		return nil, err
	}
	routes, err := l.gpu.Alloc(size * routeBytes)
	if err != nil {
		return nil, err
	}
	s.params.C.Routes = routes.Ptr()
	for i, name := range []string{"copies_1_look_up", "copies_2_rewrite", "copies_3_gather"} {
		if s.launches[i], err = launch(l, name, &s.params); err != nil {
			return nil, err
		}
	}
	if s.stream, err = l.gpu.Stream(); err != nil {
		return nil, err
	}
	s.event, err = l.event(cuda.EventDisableTiming)
	return s, err
}

// aligned rounds a size up to 16 bytes, which the device accesses at once.
func aligned(n int) int { return (n + 15) &^ 15 }

// gather writes frames and headers of a chunk to the buffer, and sets the parameters for its size.
func (s *copies) gather(c *batch.Chunk) {
	n, p := c.N, &s.params.C
	headersAt, rewrittenAt := aligned(n*frameBytes), aligned(n*resultBytes)
	copy(s.in.Bytes, bytesOf(c.In[:n]))
	headers := s.in.Bytes[headersAt:]
	for i, f := range c.In[:n] {
		*(*[headerBytes]byte)(headers[i*headerBytes:]) = *(*[headerBytes]byte)(s.mem[f.Addr-headroom:])
	}
	p.Frames, p.Headers = s.from.Ptr(), s.from.Ptr().Add(headersAt)
	p.Results, p.Rewritten = s.to.Ptr(), s.to.Ptr().Add(rewrittenAt)
	p.N = uint32(n)
	for _, l := range s.launches {
		l.Grid.X = blocks(n)
	}
	s.copied, s.copiedBack = headersAt+n*headerBytes, rewrittenAt+n*rewrittenBytes
}

// enqueue enqueues the copies and the kernels of a chunk. start and end, if there are any, are recorded
// around the kernels.
func (s *copies) enqueue(start, end *cuda.Event) error {
	err := s.stream.CopyToDevice(s.from.Ptr(), s.in.HostMemory, 0, s.copied)
	if start != nil && err == nil {
		err = start.Record(s.stream)
	}
	for _, l := range s.launches {
		if err == nil {
			err = l.Enqueue(s.stream)
		}
	}
	if end != nil && err == nil {
		err = end.Record(s.stream)
	}
	if err == nil {
		err = s.stream.CopyToHost(s.out.HostMemory, 0, s.to.Ptr(), s.copiedBack)
	}
	return err
}

func (s *copies) submit(c *batch.Chunk) error {
	s.gather(c)
	if err := s.enqueue(nil, nil); err != nil {
		return err
	}
	return s.event.Record(s.stream)
}

func (s *copies) done(c *batch.Chunk) (bool, error) {
	done, err := s.event.Done()
	if done {
		s.scatter(c)
	}
	return done, err
}

// scatter copies the results and the rewritten headers of a chunk.
func (s *copies) scatter(c *batch.Chunk) {
	copy(bytesOf(c.Out[:c.N]), s.out.Bytes)
	rewritten := s.out.Bytes[aligned(c.N*resultBytes):]
	for i, f := range c.In[:c.N] {
		if c.Out[i].Verdict.Action() == batch.ActionForward {
			*(*[rewrittenBytes]byte)(s.mem[f.Addr-headroom:]) = *(*[rewrittenBytes]byte)(rewritten[i*rewrittenBytes:])
		}
	}
}

func (s *copies) measure(c *batch.Chunk, start, end *cuda.Event) error {
	s.gather(c)
	err := errors.Join(s.enqueue(start, end), s.stream.Synchronize())
	s.scatter(c)
	return err
}
