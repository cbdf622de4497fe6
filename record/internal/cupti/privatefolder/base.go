package privatefolder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
)

// Bases lists the folders in which the private folder may be made, best first; "" stands for none.
func Bases() []string {
	return []string{os.Getenv("TMPDIR"), "/dev/shm", os.Getenv("XDG_RUNTIME_DIR"), "/tmp", "/var/tmp"}
}

// usable returns why a program of an owner cannot load a library from a folder, or should not; nil if
// it can.
func usable(base string, o Owner) error {
	if !filepath.IsAbs(base) {
		return errors.New("is not an absolute path")
	}
	var s unix.Statfs_t
	if err := unix.Statfs(base, &s); err != nil {
		return errors.New("cannot be examined: " + errno.Words(err))
	}
	if s.Flags&unix.ST_NOEXEC != 0 {
		return errors.New("is mounted noexec")
	}
	for dir := filepath.Clean(base); ; dir = filepath.Dir(dir) {
		if !traversable(dir, o) {
			return fmt.Errorf("cannot be entered by user %d", o.UID)
		}
		if !trusted(dir, o) {
			return fmt.Errorf("is not safe: other users can replace what is in %s", dir)
		}
		if dir == "/" {
			return nil
		}
	}
}

// unmappedUser is the owner that the kernel shows for a file whose owner has no number in our user
// namespace: for instance the host's root in a container without rights.
const unmappedUser = 65534

// trusted reports whether nobody but root, the recorder and the owner can replace entries of a folder
// that are not their own: programs of the owner load a library from there.
func trusted(dir string, o Owner) bool {
	var s unix.Stat_t
	if unix.Stat(dir, &s) != nil {
		return false
	}
	others := uint32(0o022)
	if s.Gid == 0 {
		others = 0o002
	}
	known := []int{0, unmappedUser, o.UID, os.Geteuid()}
	return slices.Contains(known, int(s.Uid)) && (s.Mode&others == 0 || s.Mode&unix.S_ISVTX != 0)
}

// traversable reports whether the owner may pass through a folder.
func traversable(dir string, o Owner) bool {
	var s unix.Stat_t
	if o.UID == 0 {
		return true
	}
	if unix.Stat(dir, &s) != nil {
		return false
	}
	switch {
	case int(s.Uid) == o.UID:
		return s.Mode&0o100 != 0
	case int(s.Gid) == o.GID:
		return s.Mode&0o010 != 0
	}
	return s.Mode&0o001 != 0
}
