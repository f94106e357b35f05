package race

// Fewer returns n, or n/5 with the race detector: the iterations of a test without concurrency.
func Fewer(n int) int {
	if Enabled {
		return n / 5
	}
	return n
}
