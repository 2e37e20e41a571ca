package config

import "net/netip"

func isAddress(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == ""
}

func isPrefix(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}
