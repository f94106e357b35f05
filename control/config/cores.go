package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/warproute/warproute/internal/placement"
)

const coresHint = `write auto, a list such as "2-5,8", or a CPU`

// coreList reads the CPUs of the workers: auto, "2-5,8", or a YAML list of numbers and ranges.
func coreList(dst *[]int) value {
	one := func(dst *[]int, mayAuto bool) value {
		return scalar(dst, "a list of CPUs", coresHint, func(s string) ([]int, string, string) {
			if s == auto && mayAuto {
				return nil, "", ""
			}
			cpus, err := placement.ParseList(s)
			if err == nil && len(cpus) == 0 {
				return nil, "no CPU", ""
			}
			if err != nil {
				return nil, err.Error(), ""
			}
			return cpus, "", ""
		})
	}
	return func(r *reader, key string, n ast.Node) {
		var parts [][]int
		if seq, ok := n.(*ast.SequenceNode); ok {
			if len(seq.Values) == 0 {
				r.fail(key, n, key+": no CPU", coresHint)
			}
			parts = make([][]int, len(seq.Values))
			list(func(i int) value { return one(&parts[i], false) })(r, key, n)
		} else {
			parts = make([][]int, 1)
			one(&parts[0], true)(r, key, n)
		}
		*dst = slices.Concat(parts...)
		if seen := slices.Sorted(slices.Values(*dst)); len(slices.Compact(slices.Clone(seen))) < len(seen) {
			r.fail(key, n, fmt.Sprintf("%s: %s names a CPU twice", key, coresText(*dst)), "name each CPU once; several workers on a CPU are slower than one")
		}
	}
}

// coresText formats the CPUs of the workers.
func coresText(cpus []int) string {
	if cpus == nil {
		return auto
	}
	parts := make([]string, len(cpus))
	for i, cpu := range cpus {
		parts[i] = strconv.Itoa(cpu)
	}
	return strings.Join(parts, ",")
}
