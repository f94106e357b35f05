package netdev

var NAPIThreads = napiThreads
