package gpulookup

// Report is what a measurement found.
type Report struct {
	Family     string  `json:"family"`
	Table      string  `json:"table"`
	Source     string  `json:"source"` // of the routes
	Routes     int     `json:"routes"`
	TableBytes int     `json:"table_bytes"` // on the device
	Addresses  int     `json:"addresses"`   // of each kind of destinations
	Verified   int     `json:"verified_addresses"`
	Device     string  `json:"device"`
	Driver     string  `json:"driver"` // the version of CUDA that it is for
	Limits     Limits  `json:"limits"`
	Rates      []*Rate `json:"rates"`
}

// Limits are what the machine gives to one thing at a time, in GB/s where nothing
// else is said.
type Limits struct {
	ToDevice    float64 `json:"to_device_gbytes"`   // copies alone
	ToHost      float64 `json:"to_host_gbytes"`     // copies alone
	BothWays    float64 `json:"both_ways_gbytes"`   // each of the two ways, at once
	MappedRead  float64 `json:"mapped_read_gbytes"` // a kernel reads the host's memory, and does nothing else
	RandomReads float64 `json:"random_reads_g"`     // billions of words of the table's root a second
}

// Rate is how fast lookups go one way.
type Rate struct {
	Way          string    `json:"way"`
	Destinations string    `json:"destinations"`
	Chunk        int       `json:"chunk"`           // addresses; 0: all at once
	Rounds       []float64 `json:"rounds_glookups"` // billions of lookups a second, ascending
	Limit        float64   `json:"limit_glookups"`  // the same without lookups; on the device RandomReads; 0: not measured
}

// Median is the median round, in billions of lookups a second.
func (r *Rate) Median() float64 { return r.Rounds[len(r.Rounds)/2] }
