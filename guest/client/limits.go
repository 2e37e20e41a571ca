package client

import (
	"math"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// dataRoom is how far at least the kernel's bound for the memory of one process
// lies beyond that for all of them, in bytes. The guest is to be the first to
// notice, because it can say so; and a process may set aside more than it uses.
const dataRoom = 512 << 20

// limits translates own, with the limits of the client where it has none.
// There are no core dumps: they would land in the workspace or with the
// host's handler, which the kernel starts whatever the limit is, unless it is
// exactly one byte (core(5), fs/coredump.c). No file is as small.
//
// For memory there is no bound of the address space: what is written for
// virtual machines of languages (Go, Node, the JVM) reserves far more than it
// uses, and does not start with less than a gigabyte.
func (c *Client) limits(own sandbox.Limits) ([]wire.Limit, error) {
	list := []wire.Limit{{Kind: wire.LimitCore, Value: 1}}
	add := func(kind wire.LimitKind, n int64) { list = append(list, wire.Limit{Kind: kind, Value: uint64(n)}) }
	pick := func(own, fallback int64) int64 {
		if own > 0 {
			return own
		}
		return max(fallback, 0)
	}
	const most = math.MaxInt64 / 2 // twice is a number yet
	d := c.o.Limits
	for _, l := range []struct {
		kind wire.LimitKind
		n    int64
	}{{wire.LimitFileSize, pick(own.FileSize, d.FileSize)}, {wire.LimitOpenFiles, pick(own.OpenFiles, d.OpenFiles)}} {
		if l.n > 0 {
			add(l.kind, l.n)
		}
	}
	cpu, memory, processes := pick(own.CPUSeconds, d.CPUSeconds), pick(own.Memory, d.Memory), pick(own.Processes, d.Processes)
	if max(cpu, memory, processes) > 0 && !c.hello.Has(wire.FeatureLimits) {
		return nil, &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "start", Field: "limits",
			Message: "the guest of the sandbox is older than limits of processor time, memory and processes for a whole command",
			Hint:    "recreate the sandbox to get the current guest",
		}
	}
	if cpu > 0 {
		add(wire.LimitCPU, cpu)
		add(wire.LimitTreeCPU, cpu)
	}
	if memory > 0 {
		add(wire.LimitData, min(memory, most)+max(min(memory, most), dataRoom))
		add(wire.LimitTreeMemory, memory)
	}
	if processes > 0 {
		add(wire.LimitTreeProcesses, processes)
	}
	return list, nil
}

// hit translates what the guest says was reached. A limit that was not asked
// for cannot be.
func hit(h *wire.LimitHit, asked []wire.Limit) (*sandbox.LimitHit, error) {
	if h == nil {
		return nil, nil
	}
	whole := sandbox.LimitHit{Current: int64(h.Current), Bound: int64(h.Bound)}
	switch h.Kind {
	case wire.LimitSandboxMemory:
		whole.Limit, whole.Unit = sandbox.LimitSandboxMemory, sandbox.UnitBytes
		return &whole, nil
	case wire.LimitSandboxProcesses:
		whole.Limit, whole.Unit = sandbox.LimitSandboxProcesses, sandbox.UnitProcesses
		return &whole, nil
	case wire.LimitDisk:
		whole.Limit, whole.Unit, whole.Path = sandbox.LimitDisk, sandbox.UnitBytes, h.Path
		return &whole, nil
	case wire.LimitInodes:
		whole.Limit, whole.Unit, whole.Path = sandbox.LimitDisk, sandbox.UnitFiles, h.Path
		return &whole, nil
	}
	for _, l := range asked {
		if l.Kind != h.Kind || l.Value != h.Bound || h.Current < h.Bound {
			continue
		}
		out := &sandbox.LimitHit{Current: int64(h.Current), Bound: int64(h.Bound)}
		switch h.Kind {
		case wire.LimitFileSize:
			out.Limit, out.Unit = sandbox.LimitFileSize, sandbox.UnitBytes
		case wire.LimitOpenFiles:
			out.Limit, out.Unit = sandbox.LimitOpenFiles, sandbox.UnitFiles
		case wire.LimitTreeCPU:
			out.Limit, out.Unit = sandbox.LimitCPUSeconds, sandbox.UnitSeconds
		case wire.LimitTreeMemory:
			out.Limit, out.Unit = sandbox.LimitMemory, sandbox.UnitBytes
		case wire.LimitTreeProcesses:
			out.Limit, out.Unit = sandbox.LimitProcesses, sandbox.UnitProcesses
		default:
			continue
		}
		return out, nil
	}
	return nil, wire.Violation("a limit was reached that was not set")
}
