package procfs

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// A Content identifies what a file holds: another file, or the same file after a change, has
// another Content.
type Content struct {
	device, inode uint64
	size          int64
	modified      time.Time
}

// ContentOf identifies the content of an open regular file.
func ContentOf(f *os.File) (Content, error) {
	info, err := f.Stat()
	if err != nil {
		return Content{}, err
	}
	if !info.Mode().IsRegular() {
		return Content{}, fmt.Errorf("%s is no regular file", f.Name())
	}
	st := info.Sys().(*syscall.Stat_t)
	return Content{device: st.Dev, inode: st.Ino, size: info.Size(), modified: info.ModTime()}, nil
}
