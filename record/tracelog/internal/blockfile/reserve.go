package blockfile

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A reserve is disk space behind the end of a file. The end of a recording goes there when the disk is
// full: blocks that waited, the number of lost records, the index. A nil reserve reserves nothing.
type reserve struct {
	allocate func(off, length int64) error // makes sure of space on the disk; the length of the file stays
	until    int64                         // the file has space up to here
	none     bool                          // there is no reserve
	ending   bool                          // the file is about to end: its blocks may go there
}

// Sizes of a reserve, in bytes. It is smaller on a disk with less space.
const (
	MostReserve  = MaxBacklog + 2<<20
	leastReserve = 256 << 10
	endReserve   = 128 << 10 // the last records and the index
)

// newReserve returns the reserve of a file, nil where nothing can be reserved.
func newReserve(f *os.File) *reserve {
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &most); err != nil || most.Cur != unix.RLIM_INFINITY {
		return nil // a signal would come at the limit
	}
	return &reserve{allocate: func(off, length int64) error {
		return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, off, length)
	}}
}

// take makes sure that n bytes can be written at an offset and that space is left behind them.
func (r *reserve) take(off, n int64) error {
	if r == nil || r.none || r.ending || off+n+leastReserve <= r.until {
		return nil
	}
	from := max(off, r.until)
	var err error
	for size := int64(MostReserve); size >= leastReserve; size /= 2 {
		for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
			err = r.allocate(from, off+n+size-from)
		}
		switch {
		case err == nil:
			r.until = off + n + size
			return nil
		case !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT):
			r.none = true // another error comes from a file system that cannot reserve
			return nil
		}
	}
	if r.until == 0 { // the disk was as good as full from the beginning
		r.none = true
		return nil
	}
	return err
}

// backlog is the number of bytes that may wait for space, where the file has off bytes.
func (r *reserve) backlog(off, most int64) int64 {
	if r == nil || r.none {
		return most
	}
	return min(most, max(r.until-off-endReserve, 0))
}

// Close gives back the space that an Outbox reserved behind the end of a file, and closes the file.
func Close(f *os.File) error {
	info, err := f.Stat()
	if err == nil && f.Truncate(info.Size()) != nil {
		err = nil // the space stays reserved, and the file is as good
	}
	return errors.Join(err, f.Close())
}
