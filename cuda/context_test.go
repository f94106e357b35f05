package cuda

import (
	"errors"
	"testing"
)

func TestContextIsCurrentDuringDo(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	cause := errors.New("cause")
	err := c.Do(func() error {
		must(t, c.Synchronize())
		return cause
	})
	if !errors.Is(err, cause) {
		t.Errorf("Do returned %v", err)
	}
	f.expect(t, "cuCtxPushCurrent_v2(0xc0)", "cuCtxSynchronize()", "cuCtxPopCurrent_v2()")

	f.fail("cuCtxPushCurrent_v2", ECCUncorrectable)
	err = c.Do(func() error { t.Error("f ran without a context"); return nil })
	failsWith(t, err, "enter a context", "memory has failed")
}

func TestBind(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	must(t, c.Bind())
	f.expect(t, "cuCtxSetCurrent(0xc0)")
}

func TestClosingTwiceClosesOnce(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	host := got(c.Register(make([]byte, 4096)))(t)
	mem := got(c.Alloc(4096))(t)
	module := got(c.Load([]byte("ptx")))(t)
	stream := got(c.NewStream(0))(t)
	event := got(c.NewEvent())(t)
	graph := got(stream.Capture(func() error { return nil }))(t)
	tests := []struct {
		name  string
		close func() error
		want  []string
	}{
		{"graph", graph.Close, []string{"cuGraphExecDestroy(0x80)", "cuGraphDestroy(0x60)"}},
		{"event", event.Close, []string{"cuEventDestroy_v2(0xe0)"}},
		{"stream", stream.Close, []string{"cuStreamDestroy_v2(0x50)"}},
		{"module", module.Close, []string{"cuModuleUnload(0x30)"}},
		{"memory", mem.Close, []string{"cuMemFree_v2()"}},
		{"host memory", host.Close, []string{"cuMemHostUnregister()"}},
		{"context", c.Close, []string{"cuDevicePrimaryCtxRelease_v2(0)"}},
	}
	f.reset()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			must(t, tt.close())
			must(t, tt.close())
			f.expect(t, tt.want...)
		})
	}
}
