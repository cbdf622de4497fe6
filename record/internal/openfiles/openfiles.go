// Package openfiles says whether this process may open further files. Input: a number of files.
// Output: the kernel's reason why not.
//
// Where no more than two files can be opened, it takes them when the program starts: the Go runtime
// aborts a process that opens a file and then lacks two more, and other packages open files before
// main begins. To be initialised before these, this package imports nothing but package syscall.
package openfiles

import "syscall"

func init() {
	if taken, err := openSpares(3); err == nil {
		release(taken)
	}
}

// Room returns an error if fewer than n further files can be opened. It opens none: another goroutine may be starting a
// program, which needs some for a moment.
func Room(n int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	for fd := uint64(0); fd < limit.Cur && n > 0; fd++ {
		if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0); errno == syscall.EBADF {
			n--
		}
	}
	if n > 0 {
		return syscall.EMFILE
	}
	return nil
}

// openSpares opens n files. After an error it keeps those that it could open.
func openSpares(n int) (taken []int, err error) {
	for range n {
		fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, 0, syscall.F_DUPFD_CLOEXEC, 0)
		if errno != 0 {
			return taken, errno
		}
		taken = append(taken, int(fd))
	}
	return taken, nil
}

func release(files []int) {
	for _, fd := range files {
		syscall.Close(fd)
	}
}
