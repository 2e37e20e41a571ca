package wire

// FeaturePorts: the guest takes TypePorts.
const FeaturePorts = "ports"

// The request for the ports at which programs listen, which has no payload, and its
// answer.
const (
	TypePorts    Type = 0x17
	TypePortList Type = 0x4e // from the guest, see EncodePorts
)

// Bounds of an answer.
const (
	MaxPorts       = 1024
	MaxPortCommand = 1024 // bytes
	maxPortsBytes  = MaxData - 1024
)

// A Port is a TCP socket that listens inside.
type Port struct {
	At      Endpoint
	PID     uint32 // of the program, 0 where it is not known
	Command string // its arguments, each with a NUL behind it, or the beginning of them
}

// EncodePorts returns the payload of a Ports answer. Of more than it can hold it has
// the first ones, and leaves commands out before it leaves ports out.
func EncodePorts(list []Port) []byte {
	if len(list) > MaxPorts {
		list = list[:MaxPorts]
	}
	room := maxPortsBytes
	for _, p := range list {
		room -= 11 + 4 + len(p.At.Host)
	}
	var e encoder
	e.u32(uint32(len(list)))
	for _, p := range list {
		command := p.Command[:min(len(p.Command), MaxPortCommand)]
		if len(command) > room {
			command = ""
		}
		room -= len(command)
		e.endpoint(p.At)
		e.u32(p.PID)
		e.str(command)
	}
	return e.b
}

// DecodePorts reads what EncodePorts returns.
func DecodePorts(p []byte) ([]Port, error) {
	d := decoder{b: p, bad: len(p) > MaxData}
	var list []Port
	for range d.count(11) {
		l := Port{At: d.endpoint(), PID: d.u32(), Command: d.str()}
		if !l.At.valid() || l.At.Family == FamilyUnix || l.At.Port == 0 || len(l.Command) > MaxPortCommand || l.PID > 1<<22 || len(list) == MaxPorts {
			d.bad = true
		}
		if d.bad {
			break
		}
		list = append(list, l)
	}
	return list, d.end("list of ports")
}
