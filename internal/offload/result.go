package offload

// Result says what has become of a packet for the host.
type Result uint8

const (
	Sent    Result = iota
	Limited        // the time for packets of the host was used up
	Failed         // the interface is down or deleted, or Linux has no memory
)
