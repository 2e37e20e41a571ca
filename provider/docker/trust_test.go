package docker_test

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv/wall"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

func TestCertificatesAreShown(t *testing.T) {
	w := wall.New(t)
	folder := providertest.NewTrustFolder(t, w.State.Egress())
	s := w.Spec("trust")
	s.Mounts = append(s.Mounts, folder.Mount())
	folder.Check(t, w.Create(s))
}
