package doctor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images"
)

// oldImage is the age at which an image is likely to lack security updates.
const oldImage = 60 * 24 * time.Hour

func imagePresent(ctx context.Context, e *examination) finding {
	if e.Image == nil || e.ImageRef == "" {
		return warn("", "%v", errNotAsked)
	}
	img, err := e.Image(ctx, e.ImageRef)
	switch {
	case sandbox.IsNotFound(err):
		if e.ImageRef == images.DefaultImage {
			return warn("sandbox images build", "%s is not there; the first run makes it", e.ImageRef)
		}
		return warn("sandbox images pull "+e.ImageRef, "%s is not there; the first run pulls it", e.ImageRef)
	case err != nil:
		return unknown()
	}
	rebuild := "sandbox images build"
	if img.Origin == images.OriginForeign {
		rebuild = "sandbox images pull " + e.ImageRef
	}
	return imageFinding(e, e.ImageRef, img, rebuild)
}

// imageFinding judges an image that is there; rebuild makes it anew.
func imageFinding(e *examination, ref string, img images.Image, rebuild string) finding {
	seen := fmt.Sprintf("%s is %s, %s", ref, shortID(img.ID), provenance(img))
	age := e.Host.now().Sub(img.Created)
	if !img.Created.IsZero() {
		seen += fmt.Sprintf(", %d days old", int(age.Hours()/24))
	}
	switch {
	case img.Stale:
		return warn(rebuild, "%s; made from another recipe than this program has", seen)
	case !img.Created.IsZero() && age > oldImage:
		return warn(rebuild, "%s; security updates are likely to be missing", seen)
	}
	return ok("%s", seen)
}

func shortID(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(len(id), 12)]
}

// provenance says what the labels tell of an image.
func provenance(img images.Image) string {
	const prefix = "dev.bulkhead.sandbox.image."
	from := ""
	// Images made before annotations were written have a label of our own.
	if base := cmp.Or(img.Labels[ocispec.AnnotationBaseImageName], img.Labels[prefix+"base"]); base != "" {
		from = " on " + base
	}
	if boot := img.Labels[prefix+"bootstrap"]; boot != "" {
		from += " (bootstrapped: " + boot + ")"
	}
	switch img.Origin {
	case images.OriginSandbox, images.OriginBrowser:
		return "built from our recipe" + from
	case images.OriginSetup:
		return "with setup commands" + from
	case images.OriginBootstrap:
		return "made from this host's package sources" + from
	}
	return "pulled or made elsewhere"
}

// guestBinary looks at the file that is mounted into every sandbox.
func guestBinary(ctx context.Context, e *examination) finding {
	const fix = "build it: make build, or CGO_ENABLED=0 go install github.com/bulkhead-dev/sandbox/cmd/sandbox-guest@latest"
	if e.Guest == nil {
		return warn("", "%v", errNotAsked)
	}
	path, err := e.Guest()
	if err != nil {
		return fail(fix, "%v", err)
	}
	digest, machine, static, err := inspectProgram(path)
	if err != nil {
		return fail(fix, "%s: %v", path, err)
	}
	if want := machineName(); machine != want {
		return fail(fix, "%s is built for %s, this machine is %s", path, machine, want)
	}
	if !static {
		return fail(fix, "%s is linked dynamically and could not start inside", path)
	}
	version, err := e.Host.Output(ctx, path, "version")
	if err != nil {
		return fail(fix, "%s does not start: %v", path, err)
	}
	return ok("%s, protocol %s, static %s, SHA-256 %s…", path, strings.TrimSpace(version), machine, digest[:12])
}

// machineName is this machine's architecture as ELF names it.
func machineName() string {
	switch runtime.GOARCH {
	case "amd64":
		return elf.EM_X86_64.String()
	case "arm64":
		return elf.EM_AARCH64.String()
	}
	return runtime.GOARCH
}

// inspectProgram reads what kind of program path is.
func inspectProgram(path string) (digest, machine string, static bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", "", false, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", "", false, err
	}
	if !fi.Mode().IsRegular() {
		return "", "", false, errors.New("is not a regular file")
	}
	program, err := elf.NewFile(f)
	if err != nil {
		return "", "", false, errors.New("is not an ELF program")
	}
	static = true
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			static = false
		}
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, fi.Size())); err != nil {
		return "", "", false, err
	}
	return hex.EncodeToString(h.Sum(nil)), program.Machine.String(), static, nil
}
