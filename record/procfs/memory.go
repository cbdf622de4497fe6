package procfs

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Memory is the memory of a process. It is for one goroutine.
//
// Only pages that are in memory already, or in swap, are read. The kernel would read any other page from the file
// behind it, and where the server of a FUSE or network mount does not answer, not even SIGKILL ends that wait.
type Memory struct {
	PID   int
	pages *os.File // its pagemap, from the first reading on
}

var pageSize = uint64(os.Getpagesize())

// Read fills b with the memory from an address on. The error is [unix.EFAULT] if a page is not there, or is not read
// for the reason above.
func (m *Memory) Read(at uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if at+uint64(len(b)) < at {
		return unix.EFAULT
	}
	for page := at / pageSize; page <= (at+uint64(len(b))-1)/pageSize; page++ {
		if there, err := m.there(page); err != nil || !there {
			if err == nil {
				err = unix.EFAULT
			}
			return err
		}
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(m.PID, local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
	if err == nil && n < len(b) {
		err = unix.EFAULT
	}
	return err
}

// there reports whether a page can be read without a file.
func (m *Memory) there(page uint64) (bool, error) {
	const (
		present, swapped, ofFile = 1 << 63, 1 << 62, 1 << 61
		entrySize                = 8
	)
	if m.pages == nil {
		f, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", m.PID))
		if err != nil {
			return false, err
		}
		m.pages = f
	}
	var b [entrySize]byte
	n, err := again(func() (int, error) { return unix.Pread(int(m.pages.Fd()), b[:], int64(page)*entrySize) })
	if n < entrySize { // nothing: the program has been replaced, or there is no such address
		return false, err
	}
	entry := binary.NativeEndian.Uint64(b[:])
	return entry&present != 0 || entry&swapped != 0 && entry&ofFile == 0, err
}
