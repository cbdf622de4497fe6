package privatefolder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/armedpage"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// The folder of armed programs has a page in place of socket and lock: nobody that could hold a lock is there
// while they wait. Such a folder is in use while a process loads the library from it, or would.

// ArmedName is the name of the page: record/cupti/inject/wire.h, struct ct_armed.
const ArmedName = "armed"

// MakeArmed makes a folder for programs of our own user that wait for a recorder. It returns the path of the
// library. The folder stays until a later cudatrace finds that no process uses it.
func MakeArmed(bases []string, library, page []byte) (path string, err error) {
	o := Owner{UID: os.Geteuid(), GID: os.Getegid()}
	f, err := makeWith(bases, o, func(f *Folder) error {
		dir := int(f.dir.Fd())
		if err := writeFile(dir, ArmedName, page, 0o600, o); err != nil {
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

// Arms says whether the library at a path is that of armed programs.
func Arms(library string) bool {
	if filepath.Base(library) != LibraryName {
		return false
	}
	_, err := os.Lstat(filepath.Join(filepath.Dir(library), ArmedName))
	return err == nil
}

// isArmed says whether a folder is one of armed programs.
func isArmed(dir int) bool {
	var s unix.Stat_t
	return unix.Fstatat(dir, ArmedName, &s, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// removeArmed empties the folder of armed programs of a user if no process uses it, and says whether it did. A folder that
// was made a moment ago may belong to a program that is just being started.
func removeArmed(dir int, path string, owner uint32, made time.Time) bool {
	if time.Since(made) < staleAge || !ownNamespace(dir) {
		return false
	}
	for range 2 { // a process that another one has just started may be missing once
		if inUse(filepath.Join(path, LibraryName), owner) {
			return false
		}
	}
	return emptyFolder(dir) == nil
}

// ownNamespace says whether the programs of a folder were started in our PID namespace: in another one they may
// be out of our sight.
func ownNamespace(dir int) bool {
	fd, err := unix.Openat(dir, ArmedName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), ArmedName)
	defer f.Close()
	space, err := armedpage.Namespace(f)
	return err == nil && space == armedpage.PIDNamespace()
}

// inUse reports whether a process of the user has mapped the library, or was started with the setting by which CUDA loads it.
// A process that we may not read does not count: its user's recorder could not record it either.
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
