package docker_test

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv/trusted"
	"github.com/bulkhead-dev/sandbox/internal/testenv/wall"
)

func TestCertificatesAreShown(t *testing.T) {
	w := wall.New(t)
	folder := trusted.New(t, w.State.Egress())
	s := w.Spec("trust")
	s.Mounts = append(s.Mounts, folder.Mount())
	folder.Check(t, w.Create(s))
}
