package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// Guest implements cli.Backend.
func (backend) Guest() (path, digest string, err error) {
	if path, err = statedir.FindGuest(); err != nil {
		return "", "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", "", statedir.Unavailable("read guest", path, err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", "", statedir.Unavailable("read guest", path, err)
	}
	return path, hex.EncodeToString(h.Sum(nil)), nil
}
