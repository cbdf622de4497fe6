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

// A Span is memory that is to be read: To is filled from the address At on.
type Span struct {
	At uint64
	To []byte
}

// maxSpans is the most spans of a reading.
const maxSpans = 8

// Read fills b with the memory from an address on. The error is [unix.EFAULT] if a page is not there, or is not read
// for the reason above.
func (m *Memory) Read(at uint64, b []byte) error { return m.ReadAll(Span{at, b}) }

// ReadAll fills at most eight spans in one system call, after a look at their pages. Empty spans are passed over. The
// error is that of Read.
func (m *Memory) ReadAll(spans ...Span) error {
	var local [maxSpans]unix.Iovec
	var remote [maxSpans]unix.RemoteIovec
	k, bytes := 0, 0
	for _, s := range spans {
		if len(s.To) == 0 {
			continue
		}
		if err := m.check(s); err != nil {
			return err
		}
		local[k].Base = &s.To[0]
		local[k].SetLen(len(s.To))
		remote[k] = unix.RemoteIovec{Base: uintptr(s.At), Len: len(s.To)}
		k, bytes = k+1, bytes+len(s.To)
	}
	if k == 0 {
		return nil
	}
	n, err := unix.ProcessVMReadv(m.PID, local[:k], remote[:k], 0)
	if err == nil && n < bytes {
		err = unix.EFAULT
	}
	return err
}

// check returns an error unless each page of a span can be read without a file.
func (m *Memory) check(s Span) error {
	last := s.At + uint64(len(s.To)) - 1
	if last < s.At {
		return unix.EFAULT
	}
	for page := s.At / pageSize; page <= last/pageSize; page++ {
		if there, err := m.there(page); err != nil || !there {
			if err == nil {
				err = unix.EFAULT
			}
			return err
		}
	}
	return nil
}

// What an entry of a pagemap says.
const (
	present, swapped, ofFile = 1 << 63, 1 << 62, 1 << 61
	entrySize                = 8
)

// there reports whether a page can be read without a file.
func (m *Memory) there(page uint64) (bool, error) {
	var b [entrySize]byte
	n, err := m.entries(page, b[:])
	if n < entrySize { // nothing: the program has been replaced, or there is no such address
		return false, err
	}
	entry := binary.NativeEndian.Uint64(b[:])
	return entry&present != 0 || entry&swapped != 0 && entry&ofFile == 0, err
}

// Present reports whether all pages between two addresses are in memory now, not in swap either.
func (m *Memory) Present(from, to uint64) bool {
	first := from / pageSize
	b := make([]byte, entrySize*((to+pageSize-1)/pageSize-first))
	if n, err := m.entries(first, b); err != nil || n < len(b) {
		return false
	}
	for ; len(b) > 0; b = b[entrySize:] {
		if binary.NativeEndian.Uint64(b)&present == 0 {
			return false
		}
	}
	return true
}

// entries reads the pagemap, from a page on.
func (m *Memory) entries(page uint64, b []byte) (int, error) {
	if m.pages == nil {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/pagemap", m.PID), os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return 0, err
		}
		m.pages = f
	}
	return again(func() (int, error) { return unix.Pread(int(m.pages.Fd()), b, int64(page)*entrySize) })
}
