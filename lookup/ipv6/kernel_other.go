//go:build !amd64

package ipv6

func kernels() []kernel { return []kernel{{"go", walk}} }
