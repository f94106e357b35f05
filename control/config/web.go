package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/prometheus/exporter-toolkit/web"
)

const unixPrefix = "unix:" // of the address of a Unix socket

// checkWebConfig checks the combination of the keys of metrics.
func (c *Config) checkWebConfig() Errors {
	const key = "metrics.web_config"
	switch file := c.Metrics.WebConfig; {
	case file == "":
	case !filepath.IsAbs(file):
		return Errors{c.fault(key, fmt.Sprintf("%s: %q is not an absolute path", key, file), "write one such as /etc/warproute-web.yaml")}
	case strings.HasPrefix(c.Metrics.Listen, unixPrefix):
		return Errors{c.fault(key, key+": is for TCP, and metrics.listen is a Unix socket, which its mode protects", "remove one of the two")}
	}
	return nil
}

// checkWebFile checks the web configuration file, its certificate and its key.
func (c *Config) checkWebFile() Errors {
	const key = "metrics.web_config"
	if err := web.Validate(c.Metrics.WebConfig); err != nil {
		return Errors{c.hostFault(key, fmt.Sprintf("%s: %s: %v", key, c.Metrics.WebConfig, err), "fix the file, or remove the key to serve metrics without TLS and passwords")}
	}
	return nil
}
