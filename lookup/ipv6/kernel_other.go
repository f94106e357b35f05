//go:build !amd64

package ipv6

import "github.com/warproute/warproute/lookup/trie"

func kernels() []trie.Kernel[[16]byte] { return []trie.Kernel[[16]byte]{{Name: "go", Walk: walk}} }

var vrfKernel = walkVRFs
