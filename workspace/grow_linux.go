package workspace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mountedSize returns the size in bytes of the ext4 file system mounted at
// path, as its superblock says: statfs(2) leaves out what it keeps for itself.
func mountedSize(path string) (int64, error) {
	device, err := mountedDevice(path)
	if err != nil {
		return 0, err
	}
	f, err := os.Open(device)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	sb := make([]byte, 1024)
	if _, err := f.ReadAt(sb, 1024); err != nil {
		return 0, err
	}
	if binary.LittleEndian.Uint16(sb[0x38:]) != 0xEF53 {
		return 0, fmt.Errorf("%s holds no ext4 file system", device)
	}
	blocks := int64(binary.LittleEndian.Uint32(sb[0x4:])) | int64(binary.LittleEndian.Uint32(sb[0x150:]))<<32
	return blocks << (10 + binary.LittleEndian.Uint32(sb[0x18:])&0xF), nil
}

// growImage enlarges the file system mounted at path: in place if possible,
// else by unmounting it for a moment.
func growImage(ctx context.Context, image, path string, size int64) error {
	if err := os.Truncate(image, size); err != nil {
		return err
	}
	if growMounted(ctx, path) == nil {
		return nil
	}
	if err := unmountImage(ctx, image, path); err != nil {
		return errors.Join(err, mountImage(ctx, image, path))
	}
	// Forced, because resize2fs otherwise wants e2fsck first, and that fails
	// on a full file system, the very one that has to grow. It was unmounted
	// cleanly just now.
	return errors.Join(run(ctx, "resize2fs", "-f", image), mountImage(ctx, image, path))
}

// growMounted lets the loop device see the image's new size and the file
// system take it.
func growMounted(ctx context.Context, path string) error {
	device, err := mountedDevice(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return err
	}
	return run(ctx, "resize2fs", device)
}
