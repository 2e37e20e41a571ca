//go:build linux

package local_test

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

func TestCertificatesAreShown(t *testing.T) {
	r := newRig(t)
	folder := providertest.NewTrustFolder(t, r.state.Egress())
	s := r.spec("trust")
	s.Mounts = append(s.Mounts, folder.Mount())
	folder.Check(t, r.open(r.provider(t), s))
}
