package gpulookup

// Report is the result of a measurement.
type Report struct {
	Family     string  `json:"family"`
	Table      string  `json:"table"`
	Source     string  `json:"source"` // of the routes
	Routes     int     `json:"routes"`
	TableBytes int     `json:"table_bytes"` // on the device
	Addresses  int     `json:"addresses"`   // of each kind of destinations
	Verified   int     `json:"verified_addresses"`
	Device     string  `json:"device"`
	Driver     string  `json:"driver"` // its CUDA version
	Limits     Limits  `json:"limits"`
	Rates      []*Rate `json:"rates"`
}

// Limits are rates of single operations, in GB/s unless the name has another unit.
type Limits struct {
	ToDevice    float64 `json:"to_device_gbytes"`   // copies alone
	ToHost      float64 `json:"to_host_gbytes"`     // copies alone
	BothWays    float64 `json:"both_ways_gbytes"`   // per direction, both at once
	MappedRead  float64 `json:"mapped_read_gbytes"` // a kernel only reads host memory
	RandomReads float64 `json:"random_reads_g"`     // billions of root words per second
}

// Rate is the lookup rate of one transfer method.
type Rate struct {
	Method       string    `json:"method"`
	Destinations string    `json:"destinations"`
	Chunk        int       `json:"chunk"`           // addresses; 0: all at once
	Rounds       []float64 `json:"rounds_glookups"` // billions of lookups per second, ascending
	Limit        float64   `json:"limit_glookups"`  // the same without lookups; on the device RandomReads; 0: not measured
}

// Median returns the median round, in billions of lookups per second.
func (r *Rate) Median() float64 { return r.Rounds[len(r.Rounds)/2] }
