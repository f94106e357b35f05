package config

import (
	"fmt"

	"github.com/warproute/warproute/ipsec/suite"
)

// usesCounter reports whether a suite builds nonces from a salt and a counter. Two SAs of such a
// suite must not share a key.
func usesCounter(name string) bool {
	s, err := suite.ByName(name)
	return err == nil && s.SaltLen > 0
}

// checkKeys checks the suite of an SA and its keys.
func (e *entry) checkKeys(a *SA) {
	choice(e, "suite", a.Suite, suites)
	s, err := suite.ByName(a.Suite)
	if err != nil {
		return // choice reported it
	}
	e.checkKey("key", a.Key, a.KeyFile, s, s.KeyLen, s.SaltLen)
	e.checkKey("auth_key", a.AuthKey, a.AuthKeyFile, s, s.AuthKeyLen, 0)
}

// checkKey checks the length of a key, which is from a field or a key file: bytes of key, then
// bytes of salt.
func (e *entry) checkKey(field string, k Key, file string, s *suite.Suite, bytes, salt int) {
	from, digits := e.keyField(field, file), 2*(bytes+salt)
	what := fmt.Sprintf("%d hex digits (%d bytes)", digits, bytes)
	if salt > 0 {
		what = fmt.Sprintf("%d hex digits (%d bytes of key, then %d of salt)", digits, bytes, salt)
	}
	switch {
	case file != "" && e.isSet(field):
		e.fail(from, field+" is set too", "remove one of the two")
	case digits == 0 && (k.Len() > 0 || file != ""):
		e.fail(from, s.Name+" takes no "+field, "remove it, or choose another suite")
	case digits > 0 && k.Len() == 0 && file == "":
		err := e.config.fault(e.key+"."+from, fmt.Sprintf("%s has no %s", e.key, field), fmt.Sprintf("add `%s_file: FILE`, with %s in FILE", field, what))
		e.errs = append(e.errs, err)
	case k.Len() > 0 && 2*k.Len() != digits:
		e.fail(from, fmt.Sprintf("%d hex digits are the wrong length for %s", 2*k.Len(), s.Name), "write "+what)
	}
}

// keyField returns the field that sets a key: the key itself or its file.
func (e *entry) keyField(field, file string) string {
	if file != "" || e.isSet(field+"_file") {
		return field + "_file"
	}
	return field
}
