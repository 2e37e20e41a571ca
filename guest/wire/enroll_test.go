package wire

import (
	"bytes"
	"testing"
)

// TestEnroll holds that both messages are read as they were written, also with fields
// of later versions at the end, and that what lacks some is a violation.
func TestEnroll(t *testing.T) {
	cert := bytes.Repeat([]byte{7}, 300)
	if m, err := DecodeEnroll(Enroll{cert}.Encode()); err != nil || !bytes.Equal(m.Certificate, cert) {
		t.Errorf("%v, %v", m, err)
	}
	if m, err := DecodeEnrolled(Enrolled{7443, cert}.Encode()); err != nil || m.Port != 7443 || !bytes.Equal(m.Certificate, cert) {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := DecodeEnroll(append(Enroll{cert}.Encode(), 1)); err != nil {
		t.Error(err)
	}
	if _, err := DecodeEnrolled(append(Enrolled{7443, cert}.Encode(), 1)); err != nil {
		t.Error(err)
	}
	for name, p := range map[string][]byte{
		"nothing": nil, "empty": Enroll{}.Encode(), "long": Enroll{make([]byte, MaxCertificate+1)}.Encode(),
		"cut": Enroll{cert}.Encode()[:100],
	} {
		if _, err := DecodeEnroll(p); err == nil {
			t.Errorf("Enroll, %s: no error", name)
		}
	}
	for name, p := range map[string][]byte{
		"nothing": nil, "no port": Enrolled{0, cert}.Encode(), "no certificate": Enrolled{1, nil}.Encode(),
		"long": Enrolled{1, make([]byte, MaxCertificate+1)}.Encode(), "cut": Enrolled{1, cert}.Encode()[:100],
	} {
		if _, err := DecodeEnrolled(p); err == nil {
			t.Errorf("Enrolled, %s: no error", name)
		}
	}
}
