package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/control/routefile"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/device"
)

// gpuTables are copies of the tables of both families on a GPU.
type gpuTables struct {
	gpu    *device.GPU
	table  *routefile.Table
	v4, v6 *device.Table
}

// onGPU copies a table to the first GPU. driver is as device.OpenGPU takes it.
func onGPU(driver string, table *routefile.Table) (*resolver, error) {
	g := &gpuTables{table: table}
	var err error
	if g.gpu, err = device.OpenGPU(driver); err != nil {
		return nil, fmt.Errorf("look up on a GPU: %w; --engine cpu gives the same answers", err)
	}
	v4, v6 := table.Tables()
	if g.v4, err = g.gpu.Load(&v4.Table, true); err == nil {
		g.v6, err = g.gpu.Load(&v6.Table, false)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("look up on %s: %w", g.gpu.Info.Name, err), g.gpu.Close())
	}
	return &resolver{g.answer, g.gpu.Close}, nil
}

func (g *gpuTables) answer(addrs []netip.Addr) ([]status.Answer, error) {
	answers := make([]status.Answer, len(addrs))
	if err := g.answerFamily(answers, addrs, g.v4, true); err != nil {
		return nil, err
	}
	return answers, g.answerFamily(answers, addrs, g.v6, false)
}

// answerFamily answers the addresses of one family.
func (g *gpuTables) answerFamily(answers []status.Answer, addrs []netip.Addr, on *device.Table, is4 bool) error {
	var part []netip.Addr
	var places []int // of part in addrs
	for i, addr := range addrs {
		if addr.Is4() == is4 {
			part, places = append(part, addr), append(places, i)
		}
	}
	hops := make([]lookup.NextHopID, len(part))
	if err := on.LookupBatch(hops, part); err != nil {
		return err
	}
	for k, addr := range part {
		route, found := g.table.Route(addr, hops[k])
		if !found && hops[k] != lookup.Miss {
			return fmt.Errorf("look up on %s: result is a prefix of %d bits for %v, which no route has", g.gpu.Info.Name, hops[k]-1, addr)
		}
		answers[places[k]] = answerOf(addr, route, found)
	}
	return nil
}
