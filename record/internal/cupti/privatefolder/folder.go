// Package privatefolder makes the folder from which recorded processes load the injected library.
//
// Input: the bytes of the library, and the user that the processes run as. Output: a [Folder] that
// only this user can enter, with the library, a socket and a lock. What recorders that were killed
// left is removed on the way.
package privatefolder

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
)

// Names of files in the folder.
const (
	SocketName  = "sock"
	LibraryName = "libcudatrace.so"
)

// sunPathMax is the longest path of a Unix socket, without its final zero.
const sunPathMax = 107

// Owner is the user that the recorded programs run as.
type Owner struct{ UID, GID int }

// A Folder is the private folder: only its owner can enter it. It holds the library, the socket and
// the lock.
//
// The owner may be another user than the recorder's, whose processes can do anything in the folder
// once it is theirs. So all work goes through descriptors, follows no link and replaces no file, and
// the folder changes hands last.
type Folder struct {
	Path     string
	Listener *net.UnixListener // of the socket

	base *os.File // the folder around it
	dir  *os.File
	lock *os.File // held while the folder is in use
}

// Make makes the private folder in the first base where it can be made: from there libraries can be
// loaded, there is room, and the path is short enough for a socket. It first removes from all bases
// the folders of recorders that are gone. An empty base stands for none.
func Make(bases []string, library []byte, o Owner) (*Folder, error) {
	return makeWith(bases, o, func(f *Folder) error { return f.fill(library, o) })
}

// makeWith makes a folder that is filled by a function.
func makeWith(bases []string, o Owner, fill func(*Folder) error) (*Folder, error) {
	for _, base := range bases {
		if base != "" {
			removeStale(base, os.Geteuid(), o.UID)
		}
	}
	var why []string
	for _, base := range bases {
		if base == "" {
			continue
		}
		if err := usable(base, o); err != nil {
			why = append(why, base+" "+err.Error())
			continue
		}
		f, err := makeIn(base, fill)
		if err == nil {
			return f, nil
		}
		why = append(why, base+" is not usable: "+errno.Words(err))
	}
	return nil, fmt.Errorf("no folder to hold the injected library: %s (set TMPDIR to a folder that %s)",
		strings.Join(why, ", "), "is writable, may hold programs and has a short path")
}

func makeIn(base string, fill func(*Folder) error) (*Folder, error) {
	fd, err := unix.Open(base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := &Folder{base: os.NewFile(uintptr(fd), base), Path: filepath.Join(base, folderPrefix+rand.Text()[:10])}
	if len(f.Path)+1+len(SocketName) > sunPathMax {
		return nil, errors.Join(errors.New("too long a path for a socket"), f.base.Close())
	}
	if err := f.make(); err != nil {
		return nil, errors.Join(err, f.base.Close())
	}
	if err := fill(f); err != nil {
		return nil, errors.Join(err, f.Remove())
	}
	return f, nil
}

// make makes the folder itself, and opens it.
func (f *Folder) make() error {
	name := filepath.Base(f.Path)
	base := int(f.base.Fd())
	if err := unix.Mkdirat(base, name, 0o700); err != nil {
		return err
	}
	fd, err := unix.Openat(base, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f.dir = os.NewFile(uintptr(fd), f.Path)
	if err := f.isNew(); err != nil {
		return errors.Join(err, f.dir.Close())
	}
	return nil
}

// isNew makes sure that the folder that was opened is the one that was made: the owner of the base
// can put another one in its place. A folder of ours that is empty may as well be it.
func (f *Folder) isNew() error {
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
func (f *Folder) fill(library []byte, o Owner) error {
	dir := int(f.dir.Fd())
	var err error
	if f.lock, err = lockFolder(dir); err != nil {
		return fmt.Errorf("it cannot be locked: %w", err)
	}
	if err := writeLibrary(dir, library, o); err != nil {
		return fmt.Errorf("the injected library cannot be written: %w", err)
	}
	path := fmt.Sprintf("/proc/self/fd/%d/%s", dir, SocketName)
	if f.Listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err != nil {
		return fmt.Errorf("no socket for recorded processes: %w", err)
	}
	f.Listener.SetUnlinkOnClose(false)
	if err := unix.Fchownat(dir, SocketName, o.UID, o.GID, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("the socket cannot be given to user %d: %w", o.UID, err)
	}
	return f.dir.Chown(o.UID, o.GID)
}

// writeLibrary puts the library into a folder.
func writeLibrary(dir int, library []byte, o Owner) error {
	return writeFile(dir, LibraryName, library, 0o500, o)
}

func writeFile(dir int, name string, content []byte, mode uint32, o Owner) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(content)
	return errors.Join(err, f.Chown(o.UID, o.GID), f.Close())
}

// CloseSocket closes the socket, if it is open.
func (f *Folder) CloseSocket() error {
	if f.Listener == nil {
		return nil
	}
	if err := f.Listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Remove closes the socket and removes the files of the folder, and the folder if nothing else is in it.
func (f *Folder) Remove() error {
	err := errors.Join(f.CloseSocket(), emptyFolder(int(f.dir.Fd())))
	switch gone := unix.Unlinkat(int(f.base.Fd()), filepath.Base(f.Path), unix.AT_REMOVEDIR); gone {
	case nil, unix.ENOENT, unix.ENOTDIR, unix.ENOTEMPTY: // what others put there is theirs
	default:
		err = errors.Join(err, fmt.Errorf("%s: %w", f.Path, gone))
	}
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
	}
	return errors.Join(err, f.dir.Close(), f.base.Close())
}
