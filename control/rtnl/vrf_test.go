package rtnl

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

func TestTableOfVRFIsParsed(t *testing.T) {
	ifinfo := append([]byte{0, 0, 0, 0}, body(ne32(5), ne32(0), ne32(0))...)
	info := func(data []byte) []byte {
		return body(ifinfo, attr(unix.IFLA_LINKINFO, body(attr(unix.IFLA_INFO_KIND, []byte("vrf\x00")), attr(2, data))))
	}
	var l Link
	require.NoError(t, l.Parse(info(attr(1, ne32(1001)))))
	if l.Kind != "vrf" || l.VRFTable != 1001 {
		t.Errorf("%+v", l)
	}
	require.NoError(t, l.Parse(info(nil)))
	if l.VRFTable != 0 {
		t.Errorf("without a table: %+v", l)
	}
	if err := l.Parse(info([]byte{9, 0, 1, 0})); !errors.Is(err, ErrTruncated) {
		t.Errorf("a truncated table: %v, %+v", err, l)
	}
}

func TestRuleOfVRFsIsParsed(t *testing.T) {
	const l3mdev = 19
	all := []byte{unix.AF_INET, 0, 0, 0, 0, 0, 0, unix.FR_ACT_TO_TBL, 0, 0, 0, 0}
	for name, c := range map[string]struct {
		data []byte
		vrfs bool
	}{
		"all":            {body(all, attr(unix.FRA_PRIORITY, ne32(1000)), attr(l3mdev, []byte{1}), attr(unix.FRA_PROTOCOL, []byte{2})), true},
		"by mark":        {body(all, attr(unix.FRA_FWMARK, ne32(1)), attr(l3mdev, []byte{1})), false},
		"off":            {body(all, attr(l3mdev, []byte{0})), false},
		"another size":   {body(all, attr(l3mdev, []byte{1, 0})), false},
		"by interface":   {body(all, attr(unix.FRA_IIFNAME, []byte("lan0\x00")), attr(unix.FRA_TABLE, ne32(100))), false},
		"without l3mdev": {body(all, attr(unix.FRA_TABLE, ne32(100))), false},
	} {
		var r Rule
		if err := r.Parse(c.data); err != nil || r.VRFs != c.vrfs || r.VRFs && r.Plain {
			t.Errorf("%s: %+v (%v)", name, r, err)
		}
	}
}
