package cupti

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
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

// A folder is the private folder: only its owner can enter it. It holds the library, the socket and
// the lock.
//
// The owner may be another user than the recorder's, whose processes can do anything in the folder
// once it is theirs. So all work goes through descriptors, follows no link and replaces no file, and
// the folder changes hands last.
type folder struct {
	path     string
	base     *os.File // the folder around it
	dir      *os.File
	lock     *os.File // held while the folder is in use
	listener *net.UnixListener
}

// makeFolder makes the private folder in the first base where it can be made: from there libraries
// can be loaded, there is room, and the path is short enough for a socket.
func makeFolder(bases []string, library []byte, o Owner) (*folder, error) {
	var why []string
	for _, base := range bases {
		if base == "" {
			continue
		}
		if err := usable(base, o); err != nil {
			why = append(why, base+" "+err.Error())
			continue
		}
		f, err := makeIn(base, library, o)
		if err == nil {
			return f, nil
		}
		why = append(why, base+" is not usable: "+errno.Words(err))
	}
	return nil, fmt.Errorf("no folder to hold the injected library: %s (set TMPDIR to a folder that %s)",
		strings.Join(why, ", "), "is writable, may hold programs and has a short path")
}

func makeIn(base string, library []byte, o Owner) (*folder, error) {
	fd, err := unix.Open(base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := &folder{base: os.NewFile(uintptr(fd), base), path: filepath.Join(base, folderPrefix+rand.Text()[:10])}
	if len(f.path)+1+len(socketName) > sunPathMax {
		return nil, errors.Join(errors.New("too long a path for a socket"), f.base.Close())
	}
	if err := f.make(); err != nil {
		return nil, errors.Join(err, f.base.Close())
	}
	if err := f.fill(library, o); err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return f, nil
}

// make makes the folder itself, and opens it.
func (f *folder) make() error {
	name := filepath.Base(f.path)
	base := int(f.base.Fd())
	if err := unix.Mkdirat(base, name, 0o700); err != nil {
		return err
	}
	fd, err := unix.Openat(base, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f.dir = os.NewFile(uintptr(fd), f.path)
	if err := f.isNew(); err != nil {
		return errors.Join(err, f.dir.Close())
	}
	return nil
}

// isNew makes sure that the folder that was opened is the one that was made: the owner of the base
// can put another one in its place. A folder of ours that is empty may as well be it.
func (f *folder) isNew() error {
	var s unix.Stat_t
	if err := unix.Fstat(int(f.dir.Fd()), &s); err != nil {
		return err
	}
	names, err := f.dir.Readdirnames(-1)
	if err == nil && (int(s.Uid) != os.Geteuid() || s.Mode&0o077 != 0 || len(names) > 0) {
		err = errors.New("another process has replaced the new folder")
	}
	return err
}

// fill puts everything into the folder, and gives it to its owner at the end.
func (f *folder) fill(library []byte, o Owner) error {
	dir := int(f.dir.Fd())
	var err error
	if f.lock, err = lockFolder(dir); err != nil {
		return fmt.Errorf("it cannot be locked: %w", err)
	}
	if err := writeLibrary(dir, library, o); err != nil {
		return fmt.Errorf("the injected library cannot be written: %w", err)
	}
	path := fmt.Sprintf("/proc/self/fd/%d/%s", dir, socketName)
	if f.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err != nil {
		return fmt.Errorf("no socket for recorded processes: %w", err)
	}
	f.listener.SetUnlinkOnClose(false)
	if err := unix.Fchownat(dir, socketName, o.UID, o.GID, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("the socket cannot be given to user %d: %w", o.UID, err)
	}
	return f.dir.Chown(o.UID, o.GID)
}

// writeLibrary puts the library into a folder.
func writeLibrary(dir int, library []byte, o Owner) error {
	fd, err := unix.Openat(dir, libraryName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o500)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), libraryName)
	_, err = f.Write(library)
	return errors.Join(err, f.Chown(o.UID, o.GID), f.Close())
}

// closeSocket closes the socket, if it is open.
func (f *folder) closeSocket() error {
	if f.listener == nil {
		return nil
	}
	if err := f.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// remove closes the socket and removes the files of the folder, and the folder if nothing else is in it.
func (f *folder) remove() error {
	err := errors.Join(f.closeSocket(), emptyFolder(int(f.dir.Fd())))
	switch gone := unix.Unlinkat(int(f.base.Fd()), filepath.Base(f.path), unix.AT_REMOVEDIR); gone {
	case nil, unix.ENOENT, unix.ENOTDIR, unix.ENOTEMPTY: // what others put there is theirs
	default:
		err = errors.Join(err, fmt.Errorf("%s: %w", f.path, gone))
	}
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
	}
	return errors.Join(err, f.dir.Close(), f.base.Close())
}

// usable says why a program of an owner cannot load a library from a folder, or should not; nil if
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

// trusted says whether nobody but root, the recorder and the owner can replace entries of a folder
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
