package config

import (
	"fmt"
	"slices"
)

// hostsOf returns the rules for hosts that a registry of network.registries
// stands for: those of settings, else the public hosts, read-only where the
// protocol is plain HTTP.
func (h RegistryHosts) hostsOf(registry string) []string {
	var own, public []string
	switch registry {
	case "npm":
		own, public = h.NPM, []string{"https://registry.npmjs.org"}
	case "pypi":
		own, public = h.PyPI, []string{"https://pypi.org", "https://files.pythonhosted.org"}
	case "go":
		own, public = h.Go, []string{"https://proxy.golang.org", "https://sum.golang.org"}
	case "cargo":
		own, public = h.Cargo, []string{"https://index.crates.io", "https://static.crates.io"}
	case "maven":
		own, public = h.Maven, []string{"https://repo.maven.apache.org"}
	case "debian":
		own, public = h.Debian, []string{"https://deb.debian.org", "GET,HEAD http://deb.debian.org"}
	}
	if own != nil {
		return own
	}
	return public
}

// allowRegistries adds the rules of network.registries to network.allowedDomains.
// The place of each is that of the registry, which is what a message names.
func (r *Resolved) allowRegistries() {
	for i, registry := range r.Network.Registries {
		at := fmt.Sprintf("network.registries[%d]", i)
		for _, rule := range r.Network.RegistryHosts.hostsOf(registry) {
			if slices.Contains(r.Network.AllowedDomains, rule) {
				continue
			}
			to := fmt.Sprintf("network.allowedDomains[%d]", len(r.Network.AllowedDomains))
			r.Network.AllowedDomains = append(r.Network.AllowedDomains, rule)
			if r.Origins == nil {
				continue
			}
			r.Origins[to] = r.Origin(at) + " network.registries " + registry
			r.fields[to] = r.field(at)
		}
	}
}

// Registry returns the name in network.registries that a person means by word.
func Registry(word string) string {
	switch word {
	case "pip":
		return "pypi"
	case "crates":
		return "cargo"
	case "apt":
		return "debian"
	}
	return word
}

// CacheTool returns the name in cache.tools that a person means by word.
func CacheTool(word string) string {
	switch word {
	case "pypi":
		return "pip"
	case "crates":
		return "cargo"
	}
	return word
}

// Registries are the names that network.registries takes.
func Registries() []string { return []string{"npm", "pypi", "go", "cargo", "maven", "debian"} }

// CacheTools are the names that cache.tools takes.
func CacheTools() []string { return []string{"npm", "pip", "go", "cargo", "maven"} }
