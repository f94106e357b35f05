package config

import "path/filepath"

// Files returns the paths of the files that Load and the router read: the configuration first.
func (c *Config) Files() []string {
	all := []string{c.file}
	if c.Metrics.WebConfig != "" {
		all = append(all, c.Metrics.WebConfig)
	}
	for i := range c.IPsec.SAs {
		for _, path := range []string{c.IPsec.SAs[i].KeyFile, c.IPsec.SAs[i].AuthKeyFile} {
			if path != "" && !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(c.file), path)
			}
			if path != "" {
				all = append(all, path)
			}
		}
	}
	return all
}
