package cupti

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
)

const (
	socketName  = "sock"
	libraryName = "libcudatrace.so"
	// sunPathMax is the longest path of a Unix socket, without its final zero.
	sunPathMax = 107
)

// folderBases lists the folders in which the private folder may be made, best first.
func folderBases() []string {
	return []string{os.Getenv("TMPDIR"), "/dev/shm", os.Getenv("XDG_RUNTIME_DIR"), "/tmp", "/var/tmp"}
}

// makeFolder makes a folder that only its owner can enter, from which libraries can be loaded,
// and whose path is short enough for a socket.
func makeFolder(bases []string, o Owner) (string, error) {
	var why []string
	for _, base := range bases {
		if base == "" {
			continue
		}
		if err := usable(base, o); err != nil {
			why = append(why, base+" "+err.Error())
			continue
		}
		dir, err := makeIn(base, o)
		if err == nil {
			return dir, nil
		}
		why = append(why, base+" is not usable: "+errno.Words(err))
	}
	return "", fmt.Errorf("no folder to hold the injected library: %s (set TMPDIR to a folder that %s)",
		strings.Join(why, ", "), "is writable, may hold programs and has a short path")
}

func makeIn(base string, o Owner) (string, error) {
	dir, err := os.MkdirTemp(base, folderPrefix)
	if err != nil {
		return "", err
	}
	err = os.Chown(dir, o.UID, o.GID)
	if err == nil && len(dir)+1+len(socketName) > sunPathMax {
		err = errors.New("too long a path for a socket")
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}

// usable says why a program of an owner cannot load a library from a folder; nil if it can.
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
		if dir == "/" {
			return nil
		}
	}
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

// writeLibrary puts the library into the folder.
func writeLibrary(dir string, library []byte, o Owner) error {
	path := filepath.Join(dir, libraryName)
	if err := os.WriteFile(path, library, 0o500); err != nil {
		return err
	}
	return os.Chown(path, o.UID, o.GID)
}
