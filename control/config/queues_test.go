package config

import (
	"errors"
	"slices"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// Each worker needs an RX and a TX queue of every port.
func TestWorkersNeedQueuesOfEveryPort(t *testing.T) {
	const (
		two   = "f:2:10: workers: 2 exceeds the number of queues of lan0 (1): each worker needs one of every port; write at most 1, 0 for one worker per queue, or add queues (ethtool -L lan0)"
		three = "f:2:10: workers: 3 exceeds the number of queues of wan0 (2): each worker needs one of every port; write at most 2, 0 for one worker per queue, or add queues (ethtool -L wan0)"
		noTX  = "f:1:40: wan0 has fewer TX queues (1) than RX queues (2); run ethtool -L wan0 rx 1 tx 1"
	)
	type queues struct{ rx, tx int }
	running := []Port{{Interface: "lan0"}, {Interface: "wan0"}}
	for _, c := range []struct {
		name     string
		workers  string
		lan, wan queues // zero: the host has no such interface
		running  []Port
		want     []string
	}{
		{"one each", "0", queues{1, 1}, queues{4, 4}, nil, nil},
		{"as many as queues", "2", queues{2, 2}, queues{2, 2}, nil, nil},
		{"fewer than queues", "1", queues{3, 3}, queues{2, 8}, nil, nil},
		{"more than one port has", "2", queues{1, 1}, queues{2, 2}, nil, []string{two}},
		{"more than all ports have", "3", queues{4, 4}, queues{2, 2}, nil, []string{three}},
		{"fewer TX than RX queues", "1", queues{1, 1}, queues{2, 1}, nil, []string{noTX}},
		{"a missing interface", "3", queues{}, queues{2, 2}, nil, []string{three}},
		{"no interface", "3", queues{}, queues{}, nil, nil},
		{"running ports", "3", queues{4, 4}, queues{2, 1}, running, nil},
	} {
		cfg, err := Parse("f", []byte("ports: [{interface: lan0}, {interface: wan0}]\nworkers: "+c.workers+"\n"))
		require.NoError(t, err)
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
