package privatefolder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A recorder that was killed leaves its folder behind. Each folder therefore holds a file that
// its recorder has locked. The kernel unlocks the file when the recorder ends, however it ends,
// and a later recorder removes the folders whose file it can lock.
//
// The file gets its name after it is locked: an unlocked file of that name means that its
// recorder is gone. All steps go through descriptors of the folders and follow no link. Only
// the files that a recorder makes are removed, and the folder only if nothing else is in
// it.

const (
	folderPrefix = "cudatrace-"
	lockName     = "lock"
	lockNewName  = "lock.new"
	// staleAge is the least age of a stale folder that has no lock file: a recorder makes the
	// file a moment after its folder.
	staleAge = time.Minute
)

// lockFolder marks a folder as in use while the file is open. On a file system without
// locks the folder stays unmarked and is never removed as stale.
func lockFolder(dir int) (*os.File, error) {
	fd, err := unix.Openat(dir, lockNewName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), lockNewName)
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		err = unix.Unlinkat(dir, lockNewName, 0)
	} else {
		err = unix.Renameat(dir, lockNewName, dir, lockName)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeStale removes from base the folders of recorders that are gone. A folder that cannot be
// removed stays: it harms nobody.
func removeStale(base string, owners ...int) {
	fd, err := unix.Open(base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return
	}
	for _, name := range names {
		if strings.HasPrefix(name, folderPrefix) && removeContents(fd, base, name, owners) {
			_ = unix.Unlinkat(fd, name, unix.AT_REMOVEDIR)
		}
	}
}

// removeContents empties a folder if it is stale, and reports whether it was.
func removeContents(base int, path, name string, owners []int) bool {
	dir, err := unix.Openat(base, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	var s unix.Stat_t
	if unix.Fstat(dir, &s) != nil || !ownedByOneOf(&s, owners) {
		return false
	}
	if isArmed(dir) {
		return removeArmed(dir, filepath.Join(path, name), s.Uid, time.Unix(s.Mtim.Unix()))
	}
	lock, err := unix.Openat(dir, lockName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		old := time.Since(time.Unix(s.Mtim.Unix())) > staleAge
		if old {
			_ = unix.Unlinkat(dir, lockNewName, 0)
		}
		return old // if it is not empty either, it stays
	}
	if err != nil {
		return false
	}
	defer unix.Close(lock)
	if unix.Fstat(lock, &s) != nil || s.Mode&unix.S_IFMT != unix.S_IFREG ||
		unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	return emptyFolder(dir) == nil
}

// emptyFolder removes the files of a recorder from a folder: the lock last, since it protects the
// others.
func emptyFolder(dir int) error {
	for _, n := range []string{SocketName, LibraryName, ArmedName, lockName} {
		if err := unix.Unlinkat(dir, n, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	return nil
}

func ownedByOneOf(s *unix.Stat_t, owners []int) bool {
	for _, uid := range owners {
		if int(s.Uid) == uid {
			return s.Mode&0o077 == 0
		}
	}
	return false
}
