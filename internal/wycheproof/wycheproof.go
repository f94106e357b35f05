// Package wycheproof converts test vectors of Project Wycheproof to ESP packets. It shares no code with
// the code under test: expected results come from the vectors and, where a vector must be adapted,
// from Go's crypto packages.
package wycheproof

import (
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

//go:embed testdata/*.json
var files embed.FS

// The files, without ".json".
const (
	GCM        = "aes_gcm_test"
	ChaCha20   = "chacha20_poly1305_test"
	CBC        = "aes_cbc_pkcs5_test"
	HMACSHA1   = "hmac_sha1_test"
	HMACSHA256 = "hmac_sha256_test"
	HMACSHA512 = "hmac_sha512_test"
)

// Vector is a test vector. Fields that its algorithm does not have are empty.
type Vector struct {
	Name                       string // file and number
	Key, IV, AAD, Msg, CT, Tag Bytes
	Valid                      bool
	TagLen                     int // of a MAC, in bytes
}

// Bytes are written as hexadecimal digits.
type Bytes []byte

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.AppendDecode(nil, text)
	return err
}

// Read returns all vectors of a file. It fails if a vector is missing or has a result other than valid or
// invalid.
func Read(file string) (all []Vector, err error) {
	text, err := files.ReadFile("testdata/" + file + ".json")
	if err != nil {
		return nil, fmt.Errorf("read test vectors: %w", err)
	}
	var parsed struct {
		NumberOfTests int
		TestGroups    []struct {
			TagSize int // in bits
			Tests   []struct {
				ID                         int `json:"tcId"`
				Key, IV, AAD, Msg, CT, Tag Bytes
				Result                     string
			}
		}
	}
	if err := json.Unmarshal(text, &parsed); err != nil {
		return nil, fmt.Errorf("read test vectors of %s: %w", file, err)
	}
	for _, g := range parsed.TestGroups {
		for _, v := range g.Tests {
			if v.Result != "valid" && v.Result != "invalid" {
				return nil, fmt.Errorf("read test vectors of %s: vector %d has the result %q", file, v.ID, v.Result)
			}
			all = append(all, Vector{fmt.Sprintf("%s %d", file, v.ID), v.Key, v.IV, v.AAD, v.Msg, v.CT, v.Tag, v.Result == "valid", g.TagSize / 8})
		}
	}
	if len(all) != parsed.NumberOfTests || len(all) == 0 {
		return nil, fmt.Errorf("read test vectors of %s: %d vectors, want %d", file, len(all), parsed.NumberOfTests)
	}
	return all, nil
}
