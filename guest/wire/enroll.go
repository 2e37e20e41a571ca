package wire

// FeatureEnroll: the guest has a TCP port at which clients with a certificate reach
// it, and takes TypeEnroll.
const FeatureEnroll = "enroll"

// The request of a client that is to reach the guest by its port, and its answer.
// The guest takes it from connections that the engine has brought only, never from
// one over its port.
const (
	TypeEnroll   Type = 0x1f // Enroll
	TypeEnrolled Type = 0x52 // Enrolled, from the guest
)

// MaxCertificate bounds a certificate in bytes.
const MaxCertificate = 4 << 10

// Enroll is the certificate of a client, in DER. From then on, until it ends, the
// guest accepts connections at its port from a client that has the key of it.
type Enroll struct{ Certificate []byte }

// Encode returns the payload of an Enroll frame.
func (m Enroll) Encode() []byte {
	var e encoder
	e.str(string(m.Certificate))
	return e.b
}

// DecodeEnroll reads the payload of an Enroll frame.
func DecodeEnroll(p []byte) (Enroll, error) {
	d := decoder{b: p}
	m := Enroll{Certificate: []byte(d.str())}
	if len(m.Certificate) == 0 || len(m.Certificate) > MaxCertificate {
		d.bad = true
	}
	return m, d.end("enroll request")
}

// Enrolled is the port of the guest, and the certificate that the guest has there, in
// DER, for the name that is its BootID. The key of it never leaves the guest.
type Enrolled struct {
	Port        uint16
	Certificate []byte
}

// Encode returns the payload of an Enrolled frame.
func (m Enrolled) Encode() []byte {
	var e encoder
	e.u16(m.Port)
	e.str(string(m.Certificate))
	return e.b
}

// DecodeEnrolled reads the payload of an Enrolled frame.
func DecodeEnrolled(p []byte) (Enrolled, error) {
	d := decoder{b: p}
	m := Enrolled{Port: d.u16(), Certificate: []byte(d.str())}
	if m.Port == 0 || len(m.Certificate) == 0 || len(m.Certificate) > MaxCertificate {
		d.bad = true
	}
	return m, d.end("answer to an enroll request")
}
