package procfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ReadFile reads a regular file at a path as a process sees it, up to a bound: a longer one is an error. No link leads out
// of the process's root, and of a relative path none out of its working folder. Opening never waits.
func ReadFile(pid int, path string, bound int) ([]byte, error) {
	from := "root"
	if !filepath.IsAbs(path) {
		from = "cwd"
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/%s", pid, from), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	at := os.NewFile(uintptr(fd), path)
	defer at.Close()
	if i, err := at.Stat(); err != nil || !i.Mode().IsRegular() { // a device could act on being opened
		return nil, errors.New("it is no file that can be read")
	}
	f, err := os.OpenFile(OpenFile(at), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(bound)+1))
	if err == nil && len(text) > bound {
		err = fmt.Errorf("%w: it has more than %d bytes", ErrCut, bound)
	}
	return text, err
}
