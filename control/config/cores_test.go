package config

import (
	"slices"
	"testing"
)

func TestCores(t *testing.T) {
	for _, c := range []struct {
		text string
		want []int
		err  string
	}{
		{"auto", nil, ""},
		{"3", []int{3}, ""},
		{"[]", nil, "f:2:8: cores: no CPU; " + coresHint},
		{`""`, nil, "f:2:8: cores: no CPU; " + coresHint},
		{`"2-4,8"`, []int{2, 3, 4, 8}, ""},
		{"2-4,8", []int{2, 3, 4, 8}, ""},
		{`[6, "1-2", 0]`, []int{6, 1, 2, 0}, ""},
		{"[auto]", nil, `f:2:9: cores[0]: list of CPUs "auto": "auto" is no number up to 8191 and no range, as in 2-5; ` + coresHint},
		{"all", nil, `f:2:8: cores: list of CPUs "all": "all" is no number up to 8191 and no range, as in 2-5; ` + coresHint},
		{`[1, "5-3"]`, nil, `f:2:12: cores[1]: list of CPUs "5-3": "5-3" is no number up to 8191 and no range, as in 2-5; ` + coresHint},
		{"[1, 2, 0-1]", nil, "f:2:8: cores: 1,2,0,1 names a CPU twice; name each CPU once; several workers on a CPU are slower than one"},
		{"{a: 1}", nil, "f:2:9: cores must be a list of CPUs, not a mapping; " + coresHint},
		{"2\nworkers: 2", nil, "f:2:8: cores names 1 of 2 CPUs, one per worker; name more, or set fewer workers"},
	} {
		cfg, err := Parse("f", []byte(onePort+"cores: "+c.text+"\n"))
		switch {
		case c.err != "" && (err == nil || err.Error() != c.err):
			t.Errorf("%s: error %v, want %s", c.text, err, c.err)
		case c.err == "" && (err != nil || !slices.Equal(cfg.Cores, c.want)):
			t.Errorf("%s: %v, %v; want %v", c.text, cfg, err, c.want)
		}
	}
}
