package record

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// staleAge is how old the private folder of another recording has to be before it can
// be a dead one's: it is made before it is locked.
const staleAge = time.Second

// holdFolder locks the folder of the injected library for as long as we live, so that
// a later recording can tell it from one whose recorder was killed. It removes those.
func (r *recorder) holdFolder() {
	_, library, _ := strings.Cut(r.server.Environ(nil)[0], "=")
	dir := filepath.Dir(library)
	if fd, err := lockFolder(dir); err == nil {
		r.folder = fd
	}
	stale, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "cudatrace-*"))
	if err != nil {
		return // a folder name with brackets: nothing is tidied up there
	}
	for _, other := range stale {
		if other != dir {
			removeStale(other)
		}
	}
}

// lockFolder takes the lock of a folder; the error says that it is no folder, or that
// its recorder lives.
func lockFolder(dir string) (fd int, err error) {
	fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// removeStale removes a folder of ours whose recorder is gone: what a recorder puts
// there, by name, relative to the folder that was looked at, and the folder if nothing
// else is in it.
func removeStale(dir string) {
	var s unix.Stat_t
	fd, err := lockFolder(dir)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	old := time.Now().Add(-staleAge)
	if unix.Fstat(fd, &s) != nil || int(s.Uid) != os.Geteuid() && os.Geteuid() != 0 || time.Unix(s.Mtim.Unix()).After(old) {
		return
	}
	for _, name := range []string{"libcudatrace.so", "sock"} {
		if err := unix.Unlinkat(fd, name, 0); err != nil && err != unix.ENOENT {
			return
		}
	}
	_ = unix.Rmdir(dir) // with something else in it, it is not ours to remove
}
