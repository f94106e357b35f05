package config

import (
	"os"
	"path/filepath"

	"github.com/prometheus/exporter-toolkit/web"
)

// OpenFiles opens the files that Load and the router read, the configuration first, and returns the first error.
func (c *Config) OpenFiles() error {
	file, err := filepath.Abs(c.file)
	if err != nil {
		return err
	}
	all := []string{file}
	for i := range c.IPsec.SAs {
		for _, path := range []string{c.IPsec.SAs[i].KeyFile, c.IPsec.SAs[i].AuthKeyFile} {
			if path != "" && !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(file), path)
			}
			if path != "" {
				all = append(all, path)
			}
		}
	}
	for _, path := range all {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		f.Close()
	}
	if c.Metrics.WebConfig == "" {
		return nil
	}
	return web.Validate(c.Metrics.WebConfig) // which reads certificates and keys
}
