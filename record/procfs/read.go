package procfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Bounds of what is read of one file below /proc, in bytes. A process decides how long most texts about it are, and can
// make them as long as its address space.
const (
	// MaxFacts bounds a text of the kernel or of a driver, and what a process cannot make longer.
	MaxFacts = 64 << 10
	// MaxStatus bounds a status file: a process may be in 65,536 groups, which are in one line.
	MaxStatus = 1 << 20
	// maxChildren bounds the PIDs of a thread's children.
	maxChildren = 1 << 20
	// maxEnvironment and maxArguments bound what a process was started with.
	maxEnvironment = 256 << 10
	maxArguments   = 256 << 10
	// maxMaps bounds a memory map, of which nothing but what the caller asks for is kept: a kernel that allows a million
	// mappings writes 100 MB. maxMapLine bounds a line, which has one path, and maxPaths the paths that are kept.
	maxMaps    = 128 << 20
	maxMapLine = 64 << 10
	maxPaths   = 32 << 20
)

// ErrCut says that a file below /proc is longer than its bound: what is behind is not known.
var ErrCut = errors.New("it is too long to be read")

// Read reads a file below /proc up to a bound. If the file is longer, it returns what it has read, and an error for
// which errors.Is finds [ErrCut].
func Read(path string, bound int) ([]byte, error) {
	text, err := readAll(path, bound+1)
	if err == nil && len(text) > bound {
		return text[:bound], fmt.Errorf("%s: %w: it has more than %d bytes", path, ErrCut, bound)
	}
	return text, err
}

// readAll reads a file up to a bound. The recorder reads many of them again and again: an [os.File] would offer each to
// the runtime's poller, which takes four more system calls and wakes a thread.
func readAll(path string, bound int) ([]byte, error) {
	fd, err := again(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	text := make([]byte, 0, min(bound, 512))
	for len(text) < bound {
		text = slices.Grow(text, 1)
		n, err := again(func() (int, error) { return unix.Read(fd, text[len(text):min(cap(text), bound)]) })
		if err != nil {
			return text, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			break
		}
		text = text[:len(text)+n]
	}
	return text, nil
}

// FileOf returns the type and the identity of the file that a link below /proc leads to. It takes what the kernel
// remembers: the server of a FUSE or network mount may not answer.
func FileOf(path string) (s unix.Statx_t, err error) {
	err = unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &s)
	return s, err
}

// SameFile reports whether two results of [FileOf] are of one file.
func SameFile(a, b *unix.Statx_t) bool {
	return a.Dev_major == b.Dev_major && a.Dev_minor == b.Dev_minor && a.Ino == b.Ino
}

// again makes a system call until no signal interrupts it.
func again(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != unix.EINTR {
			return n, err
		}
	}
}

// lines reads a file below /proc line by line, up to a bound. A line is valid until the next one. An error comes last.
func lines(path string, bound int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		rest := &io.LimitedReader{R: f, N: bound}
		scanner := bufio.NewScanner(rest)
		scanner.Buffer(nil, maxMapLine)
		for scanner.Scan() {
			if !yield(scanner.Bytes(), nil) {
				return
			}
		}
		err = scanner.Err()
		if err == nil && rest.N <= 0 {
			err = fmt.Errorf("%s: %w: it has more than %d bytes", path, ErrCut, bound)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}
