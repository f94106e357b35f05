package race

// Fewer is how often to do what would be done n times: a fifth of that while the race
// detector watches.
func Fewer(n int) int {
	if Enabled {
		return n / 5
	}
	return n
}
