package doctor

import "golang.org/x/sys/unix"

func readOnly(st *unix.Statfs_t) bool { return st.Flags&unix.ST_RDONLY != 0 }

// diskType names the file systems that matter here.
func diskType(st *unix.Statfs_t) string {
	names := map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
		unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay",
		unix.NFS_SUPER_MAGIC: "nfs", unix.SMB_SUPER_MAGIC: "smb", unix.SMB2_SUPER_MAGIC: "smb", unix.CIFS_SUPER_MAGIC: "smb",
		unix.V9FS_MAGIC: "9p", unix.FUSE_SUPER_MAGIC: "fuse", unix.MSDOS_SUPER_MAGIC: "vfat", 0x2fc12fc1: "zfs",
	}
	return names[int64(st.Type)]
}
