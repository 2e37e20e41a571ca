package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// renewBefore is how long before its end a certificate is worth a warning.
const renewBefore = 30 * 24 * time.Hour

// companyCA looks whether the certificates of docker.caFile are valid now and for
// some time: programs inside refuse every host of an authority that has expired.
func companyCA(_ context.Context, e *examination) finding {
	if e.Authorities == nil {
		return warn("", "%v", errNotAsked)
	}
	file, data, err := e.Authorities()
	if err != nil {
		if _, unread := e.settings(); unread != nil {
			return skip("settings")
		}
		if file == "" {
			return warn("", "not known: %v", err)
		}
		return fail(hintOr(err, "name a PEM file with certificates in docker.caFile, or leave it out"), "%v", err)
	}
	if file == "" {
		return ok("docker.caFile names no file")
	}
	now := e.Host.now()
	count, first := 0, time.Time{}
	var expired, ending, early []string
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fail("export the certificates again", "%s: certificate %d is damaged: %v", file, count+1, err)
		}
		count++
		if first.IsZero() || c.NotAfter.Before(first) {
			first = c.NotAfter
		}
		name := fmt.Sprintf("%q", c.Subject.String())
		switch day := c.NotAfter.UTC().Format(time.DateOnly); {
		case now.After(c.NotAfter):
			expired = append(expired, name+" on "+day)
		case now.Before(c.NotBefore):
			early = append(early, name+" on "+c.NotBefore.UTC().Format(time.DateOnly))
		case now.Add(renewBefore).After(c.NotAfter):
			ending = append(ending, name+" on "+day)
		}
	}
	const fix = "put the authority's new certificate into the file, then: sandbox recreate --all"
	switch {
	case count == 0:
		return fail("name a PEM file with certificates in docker.caFile, or leave it out", "%s holds no certificate", file)
	case len(expired) > 0:
		return fail(fix, "%s: expired: %s", file, strings.Join(expired, ", "))
	case len(early) > 0:
		return fail("correct the clock of this machine, or use a certificate that is valid now", "%s: valid only from: %s", file, strings.Join(early, ", "))
	case len(ending) > 0:
		return warn(fix, "%s: expires within 30 days: %s", file, strings.Join(ending, ", "))
	}
	return ok("%s: %d certificates, valid until %s at least", file, count, first.UTC().Format(time.DateOnly))
}

// hintOr returns what an error says to do next, or another text.
func hintOr(err error, other string) string {
	if e := new(sandbox.Error); errors.As(err, &e) && e.Hint != "" {
		return e.Hint
	}
	return other
}
