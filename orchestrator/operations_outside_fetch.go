// This file carries out what leaves through the egress proxy or happens in a
// browser, for operations under grants. It is apart from package control so that
// who does neither links no web client and no browser.

package orchestrator

import (
	"crypto/x509"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/manager"
)

// Fetch sends requests whose hosts have certificates of one of the roots; nil
// is those of the system.
func Fetch(roots *x509.CertPool) manager.Fetch {
	return func(open func(sandbox.Listener) (proxy.Session, error)) (operation.Executor, func(), error) {
		inside := &operation.Inside{}
		session, err := open(inside)
		if err != nil {
			return nil, nil, err
		}
		return operation.NewFetchExecutor(session, inside, operation.Options{Roots: roots}), func() { session.Close() }, nil
	}
}
