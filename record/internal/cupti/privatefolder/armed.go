package privatefolder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// The folder of armed programs has a page in place of socket and lock: nobody that could hold a lock is there
// while they wait. Such a folder is in use while a process loads the library from it, or would.

// ArmedName is the name of the page: record/internal/cupti/inject/wire.h, struct ct_armed.
const ArmedName = "armed"

// MakeArmed makes a folder for programs of our own user that wait for a recorder, and start under a number of filters
// of system calls. It returns the path of the library. The folder stays until a later cudatrace finds that no process
// uses it.
func MakeArmed(bases []string, library []byte, filters uint32) (path string, err error) {
	o := Owner{UID: os.Geteuid(), GID: os.Getegid()}
	f, err := makeWith(bases, o, func(f *Folder) error {
		dir := int(f.dir.Fd())
		if err := writeFile(dir, ArmedName, newPage(filters), 0o600, o); err != nil {
			return fmt.Errorf("its page cannot be written: %w", err)
		}
		return writeLibrary(dir, library, o)
	})
	if err != nil {
		return "", err
	}
	return filepath.Join(f.Path, LibraryName), errors.Join(f.dir.Close(), f.base.Close())
}

// RemoveArmed removes a folder that MakeArmed has just made, and that nobody uses.
func RemoveArmed(library string) {
	dir, err := unix.Open(filepath.Dir(library), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	if emptyFolder(dir) == nil {
		_ = unix.Rmdir(filepath.Dir(library)) // a later recorder removes it
	}
}

// Arms reports whether the library at a path is that of armed programs.
func Arms(library string) bool {
	if filepath.Base(library) != LibraryName {
		return false
	}
	_, err := os.Lstat(filepath.Join(filepath.Dir(library), ArmedName))
	return err == nil
}

// isArmed reports whether a folder is one of armed programs.
func isArmed(dir int) bool {
	var s unix.Stat_t
	return unix.Fstatat(dir, ArmedName, &s, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// removeArmed empties the folder of armed programs of a user if no process uses it, and reports whether it did. A
// folder that was made a moment ago may belong to a program that is just being started.
func removeArmed(dir int, path string, owner uint32, made time.Time) bool {
	if time.Since(made) < staleAge || !ownNamespace(dir) {
		return false
	}
	for range 2 { // a process that another one has just started may be missing once
		if inUse(filepath.Join(path, LibraryName), owner) {
			return false
		}
	}
	removeCopies(dir)
	return emptyFolder(dir) == nil
}

// copyPrefix begins the names of copies of the library, which are files for a moment:
// record/internal/cupti/inject/meet.c.
const copyPrefix = "recording-"

// removeCopies removes what processes that were killed in that moment have left. A folder with others stays.
func removeCopies(dir int) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), "folder")
	defer f.Close()
	names, _ := f.Readdirnames(-1) // those that can be read
	for _, name := range names {
		if strings.HasPrefix(name, copyPrefix) {
			_ = unix.Unlinkat(dir, name, 0)
		}
	}
}

// ownNamespace reports whether the programs of a folder were started in our PID namespace: in another one they may
// be out of our sight.
func ownNamespace(dir int) bool {
	fd, err := unix.Openat(dir, ArmedName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), ArmedName)
	defer f.Close()
	space, err := namespace(f)
	return err == nil && space == pidNamespace()
}

// inUse reports whether a process of the user has mapped the library, or was started with the setting by which CUDA
// loads it. A process that we may not read does not count: its user's recorder could not record it either.
func inUse(library string, owner uint32) bool {
	pids, err := procfs.PIDs()
	if err != nil {
		return true
	}
	for _, pid := range pids {
		if user, ok := procfs.Owner(pid); !ok || user != owner {
			continue
		}
		if has, err := procfs.EnvironmentHas(pid, "CUDA_INJECTION64_PATH="+library); has || errors.Is(err, procfs.ErrCut) {
			return true
		}
		if files, err := procfs.Files(pid); err == nil && slices.Contains(files, library) {
			return true
		}
	}
	return false
}

// The page on which armed programs wait for a recorder is struct ct_armed of record/internal/cupti/inject/wire.h. It
// belongs to the programs' user, who may write anything.
const (
	PageSize    = 4096
	PageMaxPIDs = 1018 // processes that a recorder can want at a time

	PageCountAt   = 4 // after the word
	PageFiltersAt = 8
	PageSpaceAt   = 16
	PagePIDsAt    = 24
)

// newPage is the page of programs that are started here under a number of filters of system calls.
func newPage(filters uint32) []byte {
	p := make([]byte, PageSize)
	binary.NativeEndian.PutUint32(p[PageFiltersAt:], filters)
	binary.NativeEndian.PutUint64(p[PageSpaceAt:], pidNamespace())
	return p
}

// pidNamespace is the inode of our PID namespace; 0 if it is not known.
func pidNamespace() uint64 {
	var s unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &s) != nil {
		return 0
	}
	return s.Ino
}

// namespace is the PID namespace in which the programs of a page were started.
func namespace(page io.ReaderAt) (uint64, error) {
	var b [8]byte
	_, err := page.ReadAt(b[:], PageSpaceAt)
	return binary.NativeEndian.Uint64(b[:]), err
}

// Filters is the number of filters of system calls that the programs of a page were started under.
func Filters(page io.ReaderAt) (uint32, error) {
	var b [4]byte
	_, err := page.ReadAt(b[:], PageFiltersAt)
	return binary.NativeEndian.Uint32(b[:]), err
}

// Want writes which processes a recorder wants, by their IDs in their own PID namespaces, and rings.
func Want(page *os.File, pids []uint32) error {
	if len(pids) > PageMaxPIDs {
		return fmt.Errorf("a recorder has at most %d processes of one 'cudatrace run'", PageMaxPIDs)
	}
	var list []byte
	for _, pid := range pids {
		list = binary.NativeEndian.AppendUint32(list, pid)
	}
	count := binary.NativeEndian.AppendUint32(nil, uint32(len(pids)))
	// A process that looks meanwhile finds no list, or a whole one.
	if _, err := page.WriteAt(make([]byte, len(count)), PageCountAt); err != nil {
		return err
	}
	if _, err := page.WriteAt(list, PagePIDsAt); err != nil {
		return err
	}
	if _, err := page.WriteAt(count, PageCountAt); err != nil {
		return err
	}
	return ring(page)
}

// ring changes the word and wakes who sleeps on it.
func ring(page *os.File) error {
	var b [4]byte
	if _, err := page.ReadAt(b[:], 0); err != nil {
		return err
	}
	word := max(binary.NativeEndian.Uint32(b[:])+1, 1)
	if _, err := page.WriteAt(binary.NativeEndian.AppendUint32(nil, word), 0); err != nil {
		return err
	}
	return wake(page)
}

// wake maps the page for the kernel alone: reading it here would kill us, had its owner cut the file off.
func wake(page *os.File) error {
	const opWake = 1 // linux/futex.h
	mapped, err := unix.Mmap(int(page.Fd()), 0, PageSize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	_, _, no := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(unsafe.SliceData(mapped))), opWake, math.MaxInt32, 0,
		0, 0)
	if err := unix.Munmap(mapped); err != nil {
		return err
	}
	if no != 0 {
		return fmt.Errorf("futex: %w", no)
	}
	return nil
}
