package config

import (
	"fmt"

	"github.com/warproute/warproute/ipsec/suite"
)

// counts reports whether a suite's nonces are counted up from a salt, so that no two
// associations may have a key in common.
func counts(name string) bool {
	s, err := suite.ByName(name)
	return err == nil && s.SaltLen > 0
}

// checkKeys checks that an association has the keys that its suite takes.
func (e *entry) checkKeys(a *SA) {
	choice(e, "suite", a.Suite, suites)
	s, err := suite.ByName(a.Suite)
	if err != nil {
		return // said already
	}
	e.checkKey("key", a.Key, a.KeyFile, s, s.KeyLen, s.SaltLen)
	e.checkKey("auth_key", a.AuthKey, a.AuthKeyFile, s, s.AuthKeyLen, 0)
}

// checkKey checks the key in field, or in the file that field_file names: a number of
// bytes, with a salt behind them.
func (e *entry) checkKey(field string, k Key, file string, s *suite.Suite, bytes, salt int) {
	from, digits := e.keyField(field, file), 2*(bytes+salt)
	what := fmt.Sprintf("%d hex digits (%d bytes)", digits, bytes)
	if salt > 0 {
		what = fmt.Sprintf("%d hex digits (%d bytes of key, then %d of salt)", digits, bytes, salt)
	}
	switch {
	case file != "" && e.given(field):
		e.wrong(from, "there is "+field+" as well", "leave one of the two out")
	case digits == 0 && (k.Len() > 0 || file != ""):
		e.wrong(from, s.Name+" takes none", "remove it, or choose another suite")
	case digits > 0 && k.Len() == 0 && file == "":
		err := e.config.fault(e.key+"."+from, fmt.Sprintf("%s has no %s", e.key, field), fmt.Sprintf("add `%s_file: FILE`, with %s in FILE", field, what))
		e.errs = append(e.errs, err)
	case k.Len() > 0 && 2*k.Len() != digits:
		e.wrong(from, fmt.Sprintf("%d hex digits are not a key of %s", 2*k.Len(), s.Name), "write "+what)
	}
}

// keyField is the field that a key came from, or was to come from.
func (e *entry) keyField(field, file string) string {
	if file != "" || e.given(field+"_file") {
		return field + "_file"
	}
	return field
}
