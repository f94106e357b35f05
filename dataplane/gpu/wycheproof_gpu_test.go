//go:build gpu

package gpu

import "testing"

func TestGPUGatewayMeetsWycheproof(t *testing.T) { judgeWycheproof(t, securedOnGPU) }
