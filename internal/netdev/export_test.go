package netdev

var (
	NAPIThreads     = napiThreads
	QueuesWithXDPOf = queuesWithXDP
)
