//go:build !amd64

package ipv4

import "github.com/warproute/warproute/lookup/trie"

func kernels() []trie.Kernel[uint32] { return []trie.Kernel[uint32]{{Name: "go", Walk: walk}} }

var vrfKernel = walkVRFs
