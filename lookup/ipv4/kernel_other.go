//go:build !amd64

package ipv4

func kernels() []kernel { return []kernel{{"go", walk}} }
