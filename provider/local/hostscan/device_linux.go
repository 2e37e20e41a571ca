package hostscan

import (
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

// A device holds the relevant properties of the file system of a folder.
type device struct {
	times  bool // changes of a folder change its times, visible to every reader at once
	inodes bool // a folder lists the same inode numbers as stat
	fold   bool // names that differ only in case are one name
	folds  bool // single folders may ignore case
	kernel bool // a kernel file system, which holds no ordinary files
}

// Numbers of file systems that package unix does not name.
const (
	zfsMagic      = 0x2fc12fc1
	bcachefsMagic = 0xca451a4e
	ntfs3Magic    = 0x7366746e
	ntfsMagic     = 0x5346544e
	hfsplusMagic  = 0x482b
	apparmorMagic = 0x5a3c69f0
	mqueueMagic   = 0x19800202
	configfsMagic = 0x62656570
	fusectlMagic  = 0x65735543
)

// casefolded is the flag of a folder without regard to case (FS_CASEFOLD_FL).
const casefolded = 0x40000000

// deviceOf returns the properties of the file system of the folder fd. For an
// unknown file system it assumes none of them.
func deviceOf(fd int) (device, error) {
	var st unix.Statfs_t
	if err := hostpath.Retry(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return device{}, err
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return device{times: true, inodes: true, folds: true}, nil
	case unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, zfsMagic, bcachefsMagic:
		return device{times: true, inodes: true}, nil
	case unix.OVERLAYFS_SUPER_MAGIC:
		return device{times: true}, nil
	case unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, ntfs3Magic, ntfsMagic, unix.CIFS_SUPER_MAGIC,
		unix.SMB2_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, hfsplusMagic:
		return device{fold: true}, nil
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC,
		unix.TRACEFS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.PSTOREFS_MAGIC,
		unix.EFIVARFS_MAGIC, unix.SELINUX_MAGIC, unix.NSFS_MAGIC, unix.BINFMTFS_MAGIC,
		apparmorMagic, mqueueMagic, configfsMagic, fusectlMagic:
		return device{kernel: true}, nil
	}
	return device{}, nil
}

// foldsHere reports whether the open folder fd ignores case. It returns false
// if the file system does not support the question.
func foldsHere(fd int) bool {
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	return err == nil && flags&casefolded != 0
}
