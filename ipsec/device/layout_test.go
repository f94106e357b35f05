package device

import (
	"crypto/sha512"
	"testing"

	"github.com/warproute/warproute/internal/cheader"
	"github.com/warproute/warproute/ipsec/schedule"
	"github.com/warproute/warproute/ipsec/suite"
)

func TestCHeader(t *testing.T) {
	h := &cheader.Header{}
	h.Comment("Ciphers and authentication: package suite.")
	h.Define("ESP_CBC", uint64(suite.CBC))
	h.Define("ESP_CTR", uint64(suite.CTR))
	h.Define("ESP_GCM", uint64(suite.GCM))
	h.Define("ESP_CHACHA20", uint64(suite.ChaCha20))
	h.Define("ESP_COMBINED", uint64(suite.Combined))
	h.Define("ESP_SHA1", uint64(suite.SHA1))
	h.Define("ESP_SHA256", uint64(suite.SHA256))
	h.Define("ESP_SHA512", uint64(suite.SHA512))
	h.Comment("Key records: key.go.")
	h.Define("ESP_SEGMENT_BYTES", SegmentBytes)
	h.Define("ESP_ROUND_KEYS", schedule.MaxWords/4, "of AES with a 32-byte key")
	h.Define("ESP_STATES", 2*sha512.Size/SegmentBytes, "segments of the states of HMAC-SHA-512, the longest")
	h.Define("ESP_POWERS", MaxPowers, "of GHASH's key")
	h.Struct("esp_key", Key{}, "cipher", "auth", "rounds", "iv_words", "icv_words", "align_words", "hash", "outer", "iv", "segments", "salt", "body", "tunnel", "headers", "spi", "ports", "dst", "src", "base")
	h.Check(t, "layout.h")
}
