package seccomp

// Browser returns the filter for browsers.
func Browser() string { return profile }
