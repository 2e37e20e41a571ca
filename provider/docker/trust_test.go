package docker_test

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

func TestCertificatesAreShown(t *testing.T) {
	w := dockertest.New(t)
	folder := providertest.NewTrustFolder(t, w.State.Egress())
	s := w.Spec("trust")
	s.Mounts = append(s.Mounts, folder.Mount())
	folder.Check(t, w.Create(s))
}
