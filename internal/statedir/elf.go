package statedir

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"runtime"
)

// elfMachine names the ELF machine of a Go architecture.
func elfMachine(goarch string) (elf.Machine, bool) {
	switch goarch {
	case "amd64":
		return elf.EM_X86_64, true
	case "arm64":
		return elf.EM_AARCH64, true
	case "386":
		return elf.EM_386, true
	case "arm":
		return elf.EM_ARM, true
	case "riscv64":
		return elf.EM_RISCV, true
	case "ppc64le":
		return elf.EM_PPC64, true
	case "s390x":
		return elf.EM_S390, true
	case "loong64":
		return elf.EM_LOONGARCH, true
	}
	return elf.EM_NONE, false
}

// checkELF returns an error that completes the sentence "the file …" unless
// r is a static program for this machine.
func checkELF(r io.ReaderAt) error {
	f, err := elf.NewFile(r)
	if err != nil {
		return errors.New("is not an ELF program")
	}
	defer f.Close()
	want, known := elfMachine(runtime.GOARCH)
	if !known || f.Machine != want {
		return fmt.Errorf("is built for %v, this machine is %s", f.Machine, runtime.GOARCH)
	}
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return errors.New("is not an ELF program")
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("is linked dynamically and could not start in another root file system (build it with CGO_ENABLED=0)")
		}
	}
	if libs, err := f.ImportedLibraries(); err == nil && len(libs) > 0 {
		return errors.New("needs shared libraries (build it with CGO_ENABLED=0)")
	}
	return nil
}
