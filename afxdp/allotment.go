package afxdp

import "fmt"

// allotment divides the workers' frames among ports that are added. A queue of Open has the share of frames to
// receive into that Open calculated. When its port is removed, a queue of an added port gets the same
// share. Other added queues get half of FramesPerAddedQueue.
type allotment struct {
	removed [][]int // by worker: shares of removed queues
	added   []int   // by worker: queues without the share of a removed one that can still be added
}

func (a *allotment) init(added, workers int) {
	a.removed, a.added = make([][]int, workers), make([]int, workers)
	for w := range a.added {
		a.added[w] = added
	}
}

// take returns the shares of a number of queues of a port, or an error and takes nothing.
func (a *allotment) take(queues int, ring uint32) (shares []int, err error) {
	workers := len(a.added)
	for n := range queues {
		w := n % workers
		switch last := len(a.removed[w]) - 1; {
		case last >= 0:
			shares = append(shares, a.removed[w][last])
			a.removed[w] = a.removed[w][:last]
		case a.added[w] > 0:
			shares = append(shares, FramesPerAddedQueue(ring)/2)
			a.added[w]--
		default:
			a.put(shares, ring)
			return nil, fmt.Errorf("no memory for %d more queues: raise max_ports and restart the router, or remove another port", queues)
		}
	}
	return shares, nil
}

// put returns the shares of a port's queues. 0 is the share of a queue that lost its frames.
func (a *allotment) put(shares []int, ring uint32) {
	for n, share := range shares {
		switch w := n % len(a.added); share {
		case 0:
		case FramesPerAddedQueue(ring) / 2:
			a.added[w]++
		default:
			a.removed[w] = append(a.removed[w], share)
		}
	}
}
