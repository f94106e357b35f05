package config

import (
	"errors"
	"slices"
	"testing"
)

// Each worker needs a queue of every port, to receive from and to send by.
func TestWorkersNeedQueues(t *testing.T) {
	const (
		two   = "f:2:10: workers: 2, and lan0 has queues for 1: each worker needs one of every port; write at most 1, 0 for as many as there can be, or give lan0 more (ethtool -L lan0)"
		three = "f:2:10: workers: 3, and wan0 has queues for 2: each worker needs one of every port; write at most 2, 0 for as many as there can be, or give wan0 more (ethtool -L wan0)"
		mute  = "f:1:40: wan0 has fewer queues to transmit on (1) than to receive on (2), and each must do both; ethtool -L wan0 rx 1 tx 1"
	)
	type queues struct{ rx, tx int }
	running := []Port{{Interface: "lan0"}, {Interface: "wan0"}}
	for _, c := range []struct {
		name     string
		workers  string
		lan, wan queues // none: the host has no such port
		running  []Port
		want     []string
	}{
		{"one each", "0", queues{1, 1}, queues{4, 4}, nil, nil},
		{"as many as there are", "2", queues{2, 2}, queues{2, 2}, nil, nil},
		{"fewer than there are", "1", queues{3, 3}, queues{2, 8}, nil, nil},
		{"more than one port has", "2", queues{1, 1}, queues{2, 2}, nil, []string{two}},
		{"more than all ports have", "3", queues{4, 4}, queues{2, 2}, nil, []string{three}},
		{"queues that cannot transmit", "1", queues{1, 1}, queues{2, 1}, nil, []string{mute}},
		{"a port of another host", "3", queues{}, queues{2, 2}, nil, []string{three}},
		{"another host", "3", queues{}, queues{}, nil, nil},
		{"a router that runs", "3", queues{4, 4}, queues{2, 1}, running, nil},
	} {
		cfg, err := Parse("f", []byte("ports: [{interface: lan0}, {interface: wan0}]\nworkers: "+c.workers+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range cfg.checkQueues(c.running, func(name string) (rx, tx int, err error) {
			has := map[string]queues{"lan0": c.lan, "wan0": c.wan}[name]
			if has == (queues{}) {
				return 0, 0, errors.New("none")
			}
			return has.rx, has.tx, nil
		}) {
			got = append(got, e.Error())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got\n%q\nwant\n%q", c.name, got, c.want)
		}
	}
}
