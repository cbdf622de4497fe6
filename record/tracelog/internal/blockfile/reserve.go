package blockfile

import (
	"errors"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A reserve is disk space behind the end of a file. The end of a recording goes there when the disk is
// full: the number of lost records, the index. A nil reserve reserves nothing, and has room for everything.
type reserve struct {
	allocate func(off, length int64) error // makes sure of space on the disk; the length of the file stays
	limit    int64                         // of the size of the file
	until    int64                         // the file has space up to here
	size     int64                         // of the reserve when it was made
}

// Sizes of a reserve, in bytes. It is smaller on a disk with less space.
const (
	MostReserve  = 10 << 20
	leastReserve = 256 << 10
	firstReserve = 16 << 10  // the least at the beginning of a file
	endReserve   = 128 << 10 // the last records and the index
)

// newReserve returns the reserve of a file.
func newReserve(f *os.File) *reserve {
	limit := int64(math.MaxInt64)
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &most); err == nil && most.Cur < math.MaxInt64 {
		limit = int64(most.Cur)
	}
	return &reserve{limit: limit, allocate: func(off, length int64) error {
		return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, off, length)
	}}
}

// end is the part of the reserve that belongs to the end of the file.
func (r *reserve) end() int64 { return min(endReserve, r.size/2) }

// has reports whether a file up to an offset, its last block with records of a role, leaves enough of the reserve.
func (r *reserve) has(off int64, role schema.Role) bool {
	if r == nil {
		return true
	}
	keep := r.end()
	if role == schema.Event {
		keep += (r.size - keep) / 2
	}
	return r.size > 0 && r.until-off >= keep
}

// leaves reports whether a file up to an offset leaves the part of the reserve for the end.
func (r *reserve) leaves(off int64) bool { return r == nil || r.until-off >= r.end() }

// extend makes sure of a reserve behind an offset that is larger than what is left of the one before.
func (r *reserve) extend(off int64) error {
	least := int64(leastReserve)
	if r.size < leastReserve {
		least = max(r.size, firstReserve)
	}
	err := error(syscall.ENOSPC)
	for size := int64(MostReserve); size >= least && off+size > r.until; size /= 2 {
		from := max(off, r.until)
		if off > r.limit-size {
			err = syscall.EFBIG // of a write beyond it a signal would come
			continue
		}
		for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
			err = r.allocate(from, off+size-from)
		}
		if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			r.until, r.size = off+size, size // another error comes from a file system that cannot reserve
			return nil
		}
	}
	return err
}

// Close gives back the space that an Outbox reserved behind the end of a file, and closes the file.
func Close(f *os.File) error {
	info, err := f.Stat()
	if err == nil && f.Truncate(info.Size()) != nil {
		err = nil // the space stays reserved, and the file is as good
	}
	return errors.Join(err, f.Close())
}
