// Package daemon serves sandboxes over HTTP: the requests of many tenants,
// judged and accounted one by one.
package daemon

import (
	_ "github.com/coreos/go-systemd/v22/activation" // what follows is built on it
	_ "github.com/coreos/go-systemd/v22/daemon"     // what follows is built on it
)
